//! Disks and interfaces of a host.

use std::fs;
use std::path::Path;

/// Disks that are not composed of others: those with a device behind them.
pub fn disks() -> Vec<String> {
    named("/sys/block", |folder| folder.join("device").exists())
}

/// Interfaces except the loopback.
pub fn interfaces() -> Vec<String> {
    named("/sys/class/net", |folder| !folder.ends_with("lo"))
}

fn named(folder: &str, which: impl Fn(&Path) -> bool) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let wanted = entries.flatten().filter(|entry| which(&entry.path()));
    let mut names: Vec<String> =
        wanted.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// Requested names, if they exist; all existing ones if none is requested.
pub fn chosen(what: &str, wanted: &[String], there: Vec<String>) -> Result<Vec<String>, String> {
    if wanted.is_empty() {
        return Ok(there);
    }
    let root = if what == "disk" { "/sys/class/block" } else { "/sys/class/net" };
    match wanted.iter().find(|name| name.contains('/') || !Path::new(root).join(name).exists()) {
        Some(name) => {
            Err(format!("there is no {what} {name:?}; this host has {}", there.join(", ")))
        }
        None => Ok(wanted.to_vec()),
    }
}
