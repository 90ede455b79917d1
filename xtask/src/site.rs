//! The documentation site, made from `docs/` into `target/site`.

use crate::process::{command, start};
use crate::{paths, setup};

const REQUIREMENTS: &str = "docs/site/requirements.txt";

/// `cargo xtask site`. Warnings, such as a link that leads nowhere, are errors.
pub fn make() -> Result<(), String> {
    let python = setup::environment("site-venv", REQUIREMENTS)?;
    let folder = paths::target().join("site");
    let mut build = command(python, &["-m", "mkdocs", "build", "--strict", "--quiet"]);
    build.env("NO_MKDOCS_2_WARNING", "1");
    build.args(["--config-file", "docs/site/mkdocs.yml", "--site-dir"]).arg(&folder);
    start(&mut build)?;
    println!("the site begins at {}", folder.join("index.html").display());
    Ok(())
}
