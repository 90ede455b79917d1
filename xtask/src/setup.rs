//! Installs missing requirements of the tests: Redis, etcd, ZooKeeper, tools that make networks and
//! disks fail, a Python environment, cargo-deny.
//!
//! Each part checks first and does nothing when its requirement is met, so a second run takes no
//! time.

use crate::paths;
use crate::process::{cargo, command, said, start, succeeds};
use std::fs;
use std::path::{Path, PathBuf};

const REQUIREMENTS: &str = "python/requirements-test.txt";
const DENY_VERSION: &str = "0.20.2";

/// `cargo xtask setup`.
pub fn run() -> Result<(), String> {
    packages()?;
    python()?;
    cargo_deny().map(|_| ())
}

/// Programs and the Debian packages that contain them: the servers that Claret is compared with,
/// the command line of one, tools that make networks and disks fail, the browser in which the
/// probe's report is opened, the tools that build the external judge of histories, that build and
/// run programs in Java and JavaScript, and that build the C and C++ parts of dependencies.
const PROGRAMS: &[(&str, &str)] = &[
    ("redis-server", "redis-server"),
    ("redis-cli", "redis-tools"),
    ("etcd", "etcd-server"),
    ("ip", "iproute2"),
    ("strace", "strace"),
    ("chromium", "chromium"),
    ("go", "golang-go"),
    ("javac", "default-jdk-headless"),
    ("mvn", "maven"),
    ("npm", "npm"),
    ("cc", "gcc"),
    ("c++", "g++"),
    ("make", "make"),
];

/// Other files and their packages: the server that ours is compared with request by request.
const FILES: &[(&str, &str)] = &[("/usr/share/java/zookeeper.jar", "zookeeper")];

/// Installs the packages whose programs are missing.
pub fn packages() -> Result<(), String> {
    let mut missing = Vec::new();
    for (program, package) in PROGRAMS {
        if paths::find(program).is_none() {
            missing.push(*package);
        }
    }
    for (file, package) in FILES {
        if !Path::new(file).exists() {
            missing.push(*package);
        }
    }
    if !succeeds(&mut command("python3", &["-c", "import venv, ensurepip"])) {
        missing.extend(["python3", "python3-venv"]);
    }
    if missing.is_empty() {
        println!("every program is there");
        return Ok(());
    }
    let names = missing.join(" ");
    if paths::find("apt-get").is_none() {
        return Err(format!("missing: {names} (Debian names). Install them and run this again"));
    }
    apt_get(&["update"])?;
    let mut arguments = vec!["install", "--yes", "--no-install-recommends"];
    arguments.extend(missing);
    apt_get(&arguments)
}

fn apt_get(arguments: &[&str]) -> Result<(), String> {
    let mut words = vec!["apt-get"];
    if !is_root()? {
        words.insert(0, "sudo");
    }
    words.extend(arguments);
    start(command(words[0], &words[1..]).env("DEBIAN_FRONTEND", "noninteractive"))
}

/// Whether the task may do what only root may.
pub fn is_root() -> Result<bool, String> {
    Ok(said(&mut command("id", &["-u"]))? == "0")
}

/// The virtual environment of the tests; returns its interpreter.
pub fn python() -> Result<PathBuf, String> {
    environment("venv", REQUIREMENTS)
}

/// A virtual environment in a folder of `target`, with exactly the pinned packages; returns its
/// interpreter. A stamp in the environment holds the requirements that it was made from.
pub fn environment(folder: &str, required: &str) -> Result<PathBuf, String> {
    let requirements = paths::root().join(required);
    let wanted =
        fs::read_to_string(&requirements).map_err(|e| format!("cannot read {required}: {e}"))?;
    let venv = paths::target().join(folder);
    let (python, stamp) = (venv.join("bin/python"), venv.join("requirements.stamp"));
    if fs::read_to_string(&stamp).is_ok_and(|have| have == wanted)
        && succeeds(&mut command(&python, &["--version"]))
    {
        println!("the Python environment is up to date");
        return Ok(python);
    }
    let made = ["-m", "venv", "--clear"];
    start(command("python3", &made).arg(&venv))?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"];
    start(command(&python, &pip).arg(&requirements))?;
    fs::write(&stamp, wanted).map_err(|e| format!("cannot write {}: {e}", stamp.display()))?;
    Ok(python)
}

/// cargo-deny, from the path or built once into `target/tools`; returns the program.
pub fn cargo_deny() -> Result<PathBuf, String> {
    let tools = paths::target().join("tools");
    let built = tools.join("bin/cargo-deny");
    if let Some(found) = paths::find("cargo-deny").or(built.is_file().then(|| built.clone())) {
        println!("cargo-deny is there");
        return Ok(found);
    }
    println!("building cargo-deny once, which takes some minutes");
    // An unoptimised build: it is run for a second and built in half the time.
    let build = tools.join("build");
    let arguments = ["install", "--locked", "--debug", "--version", DENY_VERSION, "cargo-deny"];
    start(cargo(&arguments).arg("--root").arg(&tools).env("CARGO_TARGET_DIR", &build))?;
    fs::remove_dir_all(&build)
        .map_err(|e| format!("cannot remove {} after the build: {e}", build.display()))?;
    Ok(built)
}
