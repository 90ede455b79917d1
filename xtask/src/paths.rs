//! Paths of the repository and its programs.

use std::env;
use std::path::{Path, PathBuf};

/// The repository's root: the folder above this crate.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the root").to_path_buf()
}

/// Cargo's target folder, which `CARGO_TARGET_DIR` can move.
pub fn target() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// The binary that tests use, which may not have been built yet.
pub fn claret() -> PathBuf {
    target().join("debug").join("claret")
}

/// The binary as it is shipped, which may not have been built yet.
pub fn shipped() -> PathBuf {
    target().join("release").join("claret")
}

/// The program that `name` means, looked up as a shell does.
pub fn find(name: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).map(|dir| dir.join(name)).find(|path| path.is_file())
}
