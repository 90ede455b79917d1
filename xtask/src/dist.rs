//! `cargo xtask dist`: packages with the program, each of them built and tried.

mod debian;
mod image;
mod npm;
pub mod wheels;

use crate::background::Background;
use crate::process::{cargo, command, limited, said, start};
use crate::report::{Count, Outcome, Report};
use crate::{HELP, paths};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Longest time of all steps, in seconds, without the build of the program: most of it waits for
/// downloads, or for the build of an image.
const BUDGET_SECONDS: u64 = 3600;

/// Longest time of one program of a step, in seconds.
const STEP_SECONDS: u64 = 300;

/// Names for `--only`.
const PARTS: [&str; 4] = ["wheel", "npm", "deb", "image"];

/// The program that is built into packages, and where.
pub struct Dist {
    /// The program, without symbols for debuggers.
    binary: PathBuf,
    /// Folder of the packages.
    out: PathBuf,
    /// Folder for what is made on the way.
    work: PathBuf,
    /// Version of the workspace.
    version: String,
    /// Time of the files in packages, in seconds since 1970, so that a commit always gives the same
    /// packages.
    epoch: String,
}

/// `cargo xtask dist`, with its options.
pub fn run(words: &[&str]) -> Result<(), String> {
    let (mut binary, mut out, mut only, mut is_installed) = (None, None, None, false);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let place = match *word {
            "--binary" => &mut binary,
            "--out" => &mut out,
            "--only" => &mut only,
            "--install" => {
                is_installed = true;
                continue;
            }
            _ => return Err(format!("dist has no option {word}\n\n{HELP}")),
        };
        *place = Some(*words.next().ok_or_else(|| format!("{word} needs a value\n\n{HELP}"))?);
    }
    if let Some(name) = only.filter(|name| !PARTS.contains(name)) {
        return Err(format!("--only takes {}, not {name}", PARTS.join(", ")));
    }
    let dist = Dist::new(binary, out)?;
    let is_wanted = |part| only.is_none_or(|only| only == part);
    let mut report = Report::new(BUDGET_SECONDS);
    if is_wanted("wheel") {
        report.step("wheels", || dist.files(wheels::make(&dist)));
    }
    if is_wanted("npm") {
        report.step("npm packages", || dist.files(npm::make(&dist)));
    }
    if is_wanted("deb") {
        report.step("Debian package", || dist.files(debian::make(&dist, is_installed)));
    }
    if is_wanted("image") {
        report.step("image", || image::make(&dist));
    }
    report.finish()
}

/// Builds the program as it is shipped, and returns it.
pub fn build() -> Result<PathBuf, String> {
    start(&mut cargo(&["build", "--release", "--locked", "--package", "claret"]))?;
    Ok(paths::shipped())
}

impl Dist {
    /// Packages of the named program, or of that of a release build.
    pub fn new(binary: Option<&str>, out: Option<&str>) -> Result<Self, String> {
        let given = match binary {
            Some(path) => PathBuf::from(path),
            None => build()?,
        };
        let out = out.map_or_else(|| paths::target().join("dist"), PathBuf::from);
        let work = paths::target().join("dist-work");
        if work.exists() {
            fs::remove_dir_all(&work).map_err(|error| failed("remove", &work, &error))?;
        }
        folder(&out)?;
        folder(&work)?;
        let out = out.canonicalize().map_err(|error| failed("find", &out, &error))?;
        let epoch = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(epoch) => epoch,
            Err(_) => said(&mut command("git", &["log", "-1", "--format=%ct"]))?,
        };
        let dist = Self { binary: work.join("claret"), out, work, version: version()?, epoch };
        copy(&given, &dist.binary)?;
        start(command("strip", &["--strip-all"]).arg(&dist.binary))
            .map_err(|why| format!("{why}; strip is in the package binutils"))?;
        Ok(dist)
    }

    /// A program that makes or tries a package, in a folder, in bounded time, with the time of files.
    fn tool(&self, folder: &Path, inner: &mut Command) -> Command {
        inner.env("SOURCE_DATE_EPOCH", &self.epoch).env_remove("CLARET_BIN");
        let mut tool = limited(STEP_SECONDS, inner);
        tool.current_dir(folder);
        tool
    }

    /// A fresh folder below that for what is made on the way.
    fn stage(&self, name: &str) -> Result<PathBuf, String> {
        let stage = self.work.join(name);
        folder(&stage)?;
        Ok(stage)
    }

    /// The outcome of a step that made these files, which it shows with their sizes.
    fn files(&self, made: Result<Vec<String>, String>) -> Result<Outcome, String> {
        let made = made?;
        for name in &made {
            println!("{name}: {}", size(&self.out.join(name))?);
        }
        Ok(Outcome::Ran(Count { passed: made.len() as u64, failed: 0 }))
    }

    /// Starts a server of the program, with its files in a folder, as a trial.
    fn serve(&self, folder: &Path, command: &mut Command, port: u16) -> Result<Background, String> {
        command.args(["--port", &port.to_string()]).current_dir(folder);
        Background::serve(command, &folder.join("log.txt"))
    }

    /// An error unless the program says its version.
    fn judge_version(&self, said: &str) -> Result<(), String> {
        let wanted = format!("claret {}", self.version);
        if said.trim() == wanted {
            return Ok(());
        }
        Err(format!("the program calls itself {:?} instead of {wanted:?}", said.trim()))
    }

    /// The newest version of the C library that the program asks for: an older one cannot run it.
    fn c_library(&self) -> Result<String, String> {
        const MARK: &[u8] = b"GLIBC_2.";
        let bytes = fs::read(&self.binary).map_err(|error| failed("read", &self.binary, &error))?;
        let minor = |at: usize| {
            let digits = bytes[at + MARK.len()..].iter().take_while(|byte| byte.is_ascii_digit());
            digits.fold(0, |sum: u32, digit| sum.wrapping_mul(10) + u32::from(digit - b'0'))
        };
        let marks = bytes.windows(MARK.len()).enumerate().filter(|(_, window)| *window == MARK);
        match marks.map(|(at, _)| minor(at)).max() {
            Some(minor) => Ok(format!("2.{minor}")),
            None => {
                Err("the program is not for Linux with glibc; packages are only for that".into())
            }
        }
    }
}

/// The version of the workspace. The packages of clients name the same.
fn version() -> Result<String, String> {
    let of = |file: &str, path: &[&str]| {
        let text = read(&paths::root().join(file))?;
        let mut value: toml::Value = toml::from_str(&text).map_err(|e| format!("{file}: {e}"))?;
        for name in path {
            value = value.get(name).cloned().ok_or_else(|| format!("{file} has no {name}"))?;
        }
        value.as_str().map(str::to_owned).ok_or_else(|| format!("{file}: the version is no text"))
    };
    let version = of("Cargo.toml", &["workspace", "package", "version"])?;
    let python = of("python/pyproject.toml", &["project", "version"])?;
    if python != version {
        return Err(format!("python/pyproject.toml has version {python}, Cargo.toml {version}"));
    }
    Ok(version)
}

fn size(path: &Path) -> Result<String, String> {
    let bytes = fs::metadata(path).map_err(|error| failed("find", path, &error))?.len();
    Ok(format!("{:.1} MB", bytes as f64 / 1e6))
}

fn folder(path: &Path) -> Result<(), String> {
    fs::create_dir_all(path).map_err(|error| failed("make", path, &error))
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| failed("read", path, &error))
}

/// Writes a file, in a folder that need not be there.
fn write(path: &Path, text: &str) -> Result<(), String> {
    folder(path.parent().unwrap_or(path))?;
    fs::write(path, text).map_err(|error| failed("write", path, &error))
}

/// Copies a file with its permissions, into a folder that need not be there.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    folder(to.parent().unwrap_or(to))?;
    fs::copy(from, to).map(|_| ()).map_err(|error| failed("copy", from, &error))
}

/// Copies what git knows of a folder of the repository, besides new files that it does not ignore.
fn copy_sources(from: &str, to: &Path) -> Result<(), String> {
    let list = ["ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate", from];
    for name in said(&mut command("git", &list))?.lines() {
        let (source, name) = (paths::root().join(name), &name[from.len() + 1..]);
        // A file that was removed and not committed is still in the list.
        if source.exists() {
            copy(&source, &to.join(name))?;
        }
    }
    copy(&paths::root().join("LICENSE"), &to.join("LICENSE"))
}

fn failed(what: &str, path: &Path, error: &std::io::Error) -> String {
    format!("cannot {what} {}: {error}", path.display())
}
