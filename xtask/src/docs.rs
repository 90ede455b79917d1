//! The command reference, generated from the binary so that it cannot differ from it.

use crate::paths;
use crate::process::{cargo, command, judge, output, start};
use std::fs;

/// Builds the program that tests use; what the README's first command builds.
pub const BUILD: &[&str] = &["build", "--locked", "--package", "claret"];

const REFERENCE: &str = "docs/reference/commands.md";

/// Writes the reference.
pub fn write() -> Result<(), String> {
    let text = generate()?;
    let path = paths::root().join(REFERENCE);
    fs::write(&path, text).map_err(|e| format!("cannot write {REFERENCE}: {e}"))?;
    println!("wrote {REFERENCE}");
    Ok(())
}

/// Fails when the reference is not what the binary would write.
pub fn check() -> Result<(), String> {
    let have = fs::read_to_string(paths::root().join(REFERENCE))
        .map_err(|e| format!("cannot read {REFERENCE}: {e}; run `cargo xtask docs`"))?;
    if have != generate()? {
        return Err(format!("{REFERENCE} is out of date; run `cargo xtask docs`"));
    }
    println!("{REFERENCE} is up to date");
    Ok(())
}

fn generate() -> Result<String, String> {
    start(&mut cargo(BUILD))?;
    let mut commands = command(paths::claret(), &["commands", "--markdown"]);
    let (status, text) = output(&mut commands)?;
    judge(&commands, status)?;
    if text.is_empty() {
        return Err("`claret commands --markdown` printed nothing".into());
    }
    Ok(text)
}
