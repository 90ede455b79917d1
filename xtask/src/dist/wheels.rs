//! Wheels: the client for Python, and the server for `pip install`.

use super::{Dist, copy, copy_sources, failed, folder, read, write};
use crate::process::{command, said, start};
use crate::{paths, setup};
use std::path::{Path, PathBuf};

const REQUIREMENTS: &str = "deploy/python/requirements.txt";

/// A test as a user would write it; pytest finds the fixture by itself.
const TEST: &str = "\
def test_a_transfer_survives_a_kill(claret, claret_server):
    claret.mset({'ann': 100, 'ben': 0})

    def transfer(tx):
        assert int(tx.get('ann')) >= 30
        tx.decrby('ann', 30)
        tx.incrby('ben', 30)

    claret.run(transfer)
    claret_server.restart()
    assert claret.mget('ann', 'ben') == ['70', '30']
";

/// Builds both wheels, installs them into a fresh environment and uses them there.
pub fn make(dist: &Dist) -> Result<Vec<String>, String> {
    let made = build(dist)?;
    let trial = dist.stage("wheels-trial")?;
    let python = install(dist, &trial, &made)?;
    let claret = python.with_file_name("claret");
    dist.judge_version(&said(&mut dist.tool(&trial, &mut command(&claret, &["--version"])))?)?;
    pip(dist, &trial, &python, &["install", "pytest"])?;
    write(&trial.join("test_transfer.py"), TEST)?;
    let pytest = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "test_transfer.py"];
    // Not another server that happens to be on the path.
    let mut pytest = command(&python, &pytest);
    start(&mut dist.tool(&trial, pytest.env("PATH", "/usr/bin:/bin").env_remove("PYTHONPATH")))?;
    Ok(made)
}

/// Builds both wheels; returns the names of their files.
pub fn build(dist: &Dist) -> Result<Vec<String>, String> {
    let python = setup::environment("dist-venv", REQUIREMENTS)?;
    let client = dist.stage("wheel-of-client")?;
    copy_sources("python", &client)?;
    let build = ["wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir"];
    pip(dist, &client, &python, &[&build[..], &[&dist.out.to_string_lossy(), "."]].concat())?;

    let server = dist.stage("wheel-of-server")?;
    let (version, tag) = (&dist.version, tag(dist)?);
    let name = format!("claret_server-{version}");
    let (info, data) = (format!("{name}.dist-info"), format!("{name}.data"));
    copy(&dist.binary, &server.join(data).join("scripts/claret"))?;
    copy(&paths::root().join("LICENSE"), &server.join(&info).join("licenses/LICENSE"))?;
    let metadata = read(&paths::root().join("deploy/python/METADATA"))?;
    write(&server.join(&info).join("METADATA"), &metadata.replace("VERSION", version))?;
    let wheel = "Wheel-Version: 1.0\nGenerator: claret\nRoot-Is-Purelib: false\nTag: ";
    write(&server.join(&info).join("WHEEL"), &format!("{wheel}{tag}\n"))?;
    let pack = ["-m", "wheel", "pack", "--dest-dir", &dist.out.to_string_lossy(), "."];
    start(&mut dist.tool(&server, &mut command(&python, &pack)))?;
    Ok(vec![format!("claret_client-{version}-py3-none-any.whl"), format!("{name}-{tag}.whl")])
}

/// The tag of the platforms that the program runs on: pip refuses the wheel elsewhere.
fn tag(dist: &Dist) -> Result<String, String> {
    let library = dist.c_library()?.replace('.', "_");
    Ok(format!("py3-none-manylinux_{library}_{}", std::env::consts::ARCH))
}

/// Installs both wheels into a fresh environment in a folder; returns its interpreter.
pub fn install(dist: &Dist, at: &Path, wheels: &[String]) -> Result<PathBuf, String> {
    folder(at)?;
    let at = at.canonicalize().map_err(|error| failed("find", at, &error))?;
    start(&mut dist.tool(&at, &mut command("python3", &["-m", "venv", "--clear", "venv"])))?;
    let python = at.join("venv/bin/python");
    let path = |name: &String| dist.out.join(name).to_string_lossy().into_owned();
    let (client, server) = (path(&wheels[0]), path(&wheels[1]));
    // The server needs no network; the client depends on redis-py.
    pip(dist, &at, &python, &["install", "--no-index", &server])?;
    pip(dist, &at, &python, &["install", &client])?;
    Ok(python)
}

fn pip(dist: &Dist, folder: &Path, python: &Path, words: &[&str]) -> Result<(), String> {
    let quiet = ["-m", "pip", "--quiet", "--disable-pip-version-check"];
    start(&mut dist.tool(folder, &mut command(python, &[&quiet[..], words].concat())))
}
