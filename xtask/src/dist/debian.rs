//! The Debian package, for machines with systemd.

use super::{Dist, copy, failed, folder, read, write};
use crate::background::free_ports;
use crate::paths;
use crate::process::{command, said, start, succeeds};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files below `deploy`, and where they are installed.
const FILES: [(&str, &str); 7] = [
    ("claret.toml", "etc/claret/claret.toml"),
    ("systemd/claret.service", "usr/lib/systemd/system/claret.service"),
    ("systemd/claret-backup.service", "usr/lib/systemd/system/claret-backup.service"),
    ("systemd/claret-backup.timer", "usr/lib/systemd/system/claret-backup.timer"),
    ("debian/copyright", "usr/share/doc/claret/copyright"),
    ("debian/claret.1", "usr/share/man/man1/claret.1"),
    ("debian/lintian-overrides", "usr/share/lintian/overrides/claret"),
];

/// Files that tell dpkg about the package.
const CONTROL: [&str; 5] = ["control", "conffiles", "postinst", "prerm", "postrm"];

/// Paths that may not be there before the package is installed on trial, nor after its purge.
const OWN: [&str; 5] =
    ["/etc/claret", "/var/lib/claret", "/usr/bin/claret", "/usr/share/doc/claret", SERVICE];
const SERVICE: &str = "/usr/lib/systemd/system/claret.service";

/// Builds the package and tries it: unpacked, and with `is_installed` also installed on this
/// machine, used and purged.
pub fn make(dist: &Dist, is_installed: bool) -> Result<Vec<String>, String> {
    if let Some(path) = installed_path().filter(|_| is_installed) {
        return Err(format!("{path} is there: --install is for a machine without Claret"));
    }
    let stage = dist.stage("debian")?;
    fill(dist, &stage)?;
    let architecture = said(&mut command("dpkg", &["--print-architecture"]))?;
    let name = format!("claret_{}_{architecture}.deb", release(dist));
    control(dist, &stage, &architecture)?;
    let package = dist.out.join(&name);
    let mut build = command("dpkg-deb", &["--root-owner-group", "--build"]);
    start(&mut dist.tool(&dist.work, build.arg(&stage).arg(&package)))?;
    match paths::find("lintian") {
        Some(lintian) => {
            let mut lintian = command(lintian, &["--fail-on", "error"]);
            start(&mut dist.tool(&dist.work, lintian.arg("--allow-root").arg(&package)))?;
        }
        None => println!("lintian is not installed: the package is not examined by it"),
    }
    unpacked(dist, &package)?;
    if is_installed {
        installed(dist, &package)?;
    }
    Ok(vec![name])
}

/// A path of the package that this machine has.
fn installed_path() -> Option<&'static str> {
    OWN.into_iter().find(|path| Path::new(path).exists())
}

/// Version of the package: the first that Debian's tools get of this version.
fn release(dist: &Dist) -> String {
    format!("{}-1", dist.version)
}

fn fill(dist: &Dist, stage: &Path) -> Result<(), String> {
    let deploy = paths::root().join("deploy");
    copy(&dist.binary, &stage.join("usr/bin/claret"))?;
    for (from, to) in FILES {
        // The units are written for a program that was installed by hand.
        let text = read(&deploy.join(from))?.replace("/usr/local/bin/claret", "/usr/bin/claret");
        write(&stage.join(to), &text)?;
    }
    let doc = stage.join("usr/share/doc/claret");
    copy(&paths::root().join("CHANGELOG.md"), &doc.join("changelog"))?;
    let time = format!("@{}", dist.epoch);
    let date = said(&mut command("date", &["--utc", "--rfc-email", "--date", &time]))?;
    let (release, maintainer) = (release(dist), maintainer(&deploy)?);
    let entry = format!(
        "claret ({release}) unstable; urgency=medium\n\n  * Release {}.\n\n -- {maintainer}  {date}\n",
        dist.version
    );
    write(&doc.join("changelog.Debian"), &entry)?;
    let mut gzip = command("gzip", &["-9", "--no-name"]);
    gzip.args([doc.join("changelog"), doc.join("changelog.Debian")]);
    start(gzip.arg(stage.join("usr/share/man/man1/claret.1")))?;
    permit(stage)
}

fn maintainer(deploy: &Path) -> Result<String, String> {
    let control = read(&deploy.join("debian/control"))?;
    let line = control.lines().find_map(|line| line.strip_prefix("Maintainer: "));
    line.map(str::to_owned).ok_or_else(|| "deploy/debian/control names no maintainer".into())
}

/// Permissions that do not depend on who builds the package.
fn permit(path: &Path) -> Result<(), String> {
    let is_program = path.ends_with("usr/bin/claret") || path.is_dir();
    let mode = fs::Permissions::from_mode(if is_program { 0o755 } else { 0o644 });
    fs::set_permissions(path, mode).map_err(|error| failed("change", path, &error))?;
    if path.is_dir() {
        for entry in fs::read_dir(path).map_err(|error| failed("read", path, &error))? {
            permit(&entry.map_err(|error| failed("read", path, &error))?.path())?;
        }
    }
    Ok(())
}

fn control(dist: &Dist, stage: &Path, architecture: &str) -> Result<(), String> {
    let mut used = command("du", &["--summarize", "--apparent-size", "-k"]);
    let kilobytes = said(used.arg(stage))?.split_whitespace().next().unwrap_or_default().to_owned();
    let values = [
        ("VERSION", release(dist)),
        ("ARCHITECTURE", architecture.to_owned()),
        ("LIBC", dist.c_library()?),
        ("SIZE", kilobytes),
    ];
    for name in CONTROL {
        let mut text = read(&paths::root().join("deploy/debian").join(name))?;
        if name == "control" {
            for (word, value) in &values {
                text = text.replace(word, value);
            }
        }
        let path = stage.join("DEBIAN").join(name);
        write(&path, &text)?;
        let mode = if text.starts_with("#!") { 0o755 } else { 0o644 };
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(&path, mode).map_err(|error| failed("change", &path, &error))?;
    }
    Ok(())
}

/// Unpacks the package and runs its program with its configuration.
fn unpacked(dist: &Dist, package: &Path) -> Result<(), String> {
    let trial = dist.stage("debian-trial")?;
    start(command("dpkg-deb", &["--extract"]).arg(package).arg(&trial))?;
    let claret = trial.join("usr/bin/claret");
    dist.judge_version(&said(&mut command(&claret, &["--version"]))?)?;
    let mut serve = command(&claret, &["serve", "--config"]);
    serve.arg(trial.join("etc/claret/claret.toml")).arg("--dir").arg(trial.join("data"));
    dist.serve(&trial, &mut serve, free_ports(1)?)?.stop()
}

/// Installs the package on this machine, runs the server as its unit does, and purges the package.
fn installed(dist: &Dist, package: &Path) -> Result<(), String> {
    start(command("dpkg", &["--install"]).arg(package))?;
    let used = used(dist);
    start(&mut command("dpkg", &["--remove", "claret"]))?;
    let kept = [Path::new("/etc/claret/claret.toml"), Path::new("/var/lib/claret")];
    let is_kept = kept.iter().all(|path| path.exists());
    start(&mut command("dpkg", &["--purge", "claret"]))?;
    used?;
    if !is_kept {
        return Err("removal without purge has removed the configuration or the data".into());
    }
    if let Some(path) = installed_path() {
        return Err(format!("{path} is still there after the purge"));
    }
    if succeeds(&mut command("getent", &["passwd", "claret"])) {
        return Err("the user claret is still there after the purge".into());
    }
    println!("installed, used, removed, purged: nothing is left");
    Ok(())
}

/// The server as the installed unit starts it, without systemd.
fn used(dist: &Dist) -> Result<(), String> {
    let unit = read(Path::new(SERVICE))?;
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart="));
    let words = line.ok_or("the unit has no ExecStart")?.split(' ');
    let data = PathBuf::from("/var/lib/claret");
    folder(&data)?;
    start(command("chown", &["claret:claret"]).arg(&data))?;
    let mut serve: Command =
        command("setpriv", &["--reuid=claret", "--regid=claret", "--clear-groups", "--"]);
    serve.args(words);
    let trial = dist.stage("debian-installed")?;
    dist.serve(&trial, &mut serve, free_ports(1)?)?.stop()
}
