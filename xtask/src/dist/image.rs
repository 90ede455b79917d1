//! The recipe of the container image: built where a container engine runs. Elsewhere its last stage is
//! carried out over this machine's own system, in a file system that is thrown away.

use super::{Dist, folder, read, write};
use crate::background::{Background, free_ports};
use crate::process::{command, limited, said, start, succeeds};
use crate::report::{Count, Outcome};
use crate::{paths, setup};

const RECIPE: &str = "deploy/container/Containerfile";

/// Longest build of an image, in seconds: the recipe builds the program from its source.
const BUILD_SECONDS: u64 = 3000;

/// Builds and starts the image, or tries the recipe without an engine.
pub fn make(dist: &Dist) -> Result<Outcome, String> {
    let is_running = |engine: &&str| succeeds(&mut command(engine, &["info"]));
    match ["podman", "docker"].into_iter().find(is_running) {
        Some(engine) => built(dist, engine)?,
        None => {
            if !setup::is_root()? {
                let why = "not built, no container engine runs; root could try the recipe without";
                return Ok(Outcome::NotRun(why.into()));
            }
            carried_out(dist)?;
            println!(
                "image: not built, no container engine; its recipe was carried out without one"
            );
        }
    }
    Ok(Outcome::Ran(Count::ONE))
}

fn built(dist: &Dist, engine: &str) -> Result<(), String> {
    let tag = format!("claret:{}", dist.version);
    let build = command(engine, &["build", "--file", RECIPE, "--tag", &tag, "."]);
    start(&mut limited(BUILD_SECONDS, &build))?;
    let version = ["run", "--rm", &tag, "--version"];
    dist.judge_version(&said(&mut command(engine, &version))?)?;
    let size = ["image", "inspect", "--format", "{{.Size}}", &tag];
    println!("{tag}: {} bytes", said(&mut command(engine, &size))?);
    Ok(())
}

/// Instructions of the recipe's last stage.
#[derive(Debug, Default, PartialEq)]
struct Stage {
    /// Shell commands, in their order.
    runs: Vec<String>,
    /// Files of the repository and their places in the image.
    copies: Vec<(String, String)>,
    user: String,
    /// Words of the program that the container runs.
    program: Vec<String>,
}

fn last_stage(recipe: &str) -> Result<Stage, String> {
    let joined = recipe.replace("\\\n", " ");
    let mut stage = Stage::default();
    for line in joined.lines() {
        let (word, rest) = line.trim().split_once(' ').unwrap_or((line, ""));
        match word {
            "FROM" => stage = Stage::default(),
            "RUN" => stage.runs.push(rest.to_owned()),
            // From another stage comes only the program.
            "COPY" if !rest.starts_with("--from") => {
                let (from, to) = rest.split_once(' ').ok_or_else(|| format!("{RECIPE}: {line}"))?;
                stage.copies.push((from.to_owned(), to.trim().to_owned()));
            }
            "USER" => rest.clone_into(&mut stage.user),
            "ENTRYPOINT" | "CMD" => {
                let words: Vec<String> =
                    serde_json::from_str(rest).map_err(|e| format!("{RECIPE}: {line}: {e}"))?;
                stage.program.extend(words);
            }
            _ => {}
        }
    }
    Ok(stage)
}

/// Carries the last stage out and runs its program as its user, with this machine's system as the base.
fn carried_out(dist: &Dist) -> Result<(), String> {
    let stage = last_stage(&read(&paths::root().join(RECIPE))?)?;
    let base = dist.stage("image")?;
    let (root, steps) = (base.join("root"), base.join("steps.sh"));
    folder(&root)?;
    let mut script = String::from(
        "set -eu\n\
         mount -t tmpfs layers \"$1\"\n\
         mkdir \"$1/upper\" \"$1/scratch\" \"$1/system\"\n\
         mount -t overlay overlay \"$1/system\" \
         -o \"lowerdir=/,upperdir=$1/upper,workdir=$1/scratch\"\n\
         mount --rbind /dev \"$1/system/dev\"\n\
         mount --rbind /proc \"$1/system/proc\"\n\
         install -m 755 \"$2\" \"$1/system/usr/local/bin/claret\"\n",
    );
    for run in &stage.runs {
        script += &format!("chroot \"$1/system\" sh -euc '{}'\n", run.replace('\'', "'\\''"));
    }
    for (from, to) in &stage.copies {
        script += &format!("install -m 644 \"$4/{from}\" \"$1/system{to}\"\n");
    }
    let program = stage.program.join(" ");
    script += &format!(
        "exec chroot --userspec={} \"$1/system\" /usr/local/bin/{program} --port \"$3\"\n",
        stage.user
    );
    write(&steps, &script)?;
    let mut run = command("unshare", &["--mount", "sh"]);
    run.args([&steps, &root, &dist.binary]).arg(free_ports(1)?.to_string()).arg(paths::root());
    Background::serve(&mut run, &base.join("log.txt"))?.stop()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::Tree;
    use crate::tidy::crates::production;
    use std::collections::HashSet;
    use std::path::{Component, Path, PathBuf};

    /// The file in the repository that a source file means by a path relative to itself.
    fn resolved(source: &str, path: &str) -> PathBuf {
        let mut place = Path::new(source).parent().unwrap().to_owned();
        for part in Path::new(path).components() {
            if part == Component::ParentDir {
                place.pop();
            } else {
                place.push(part);
            }
        }
        place
    }

    #[test]
    fn the_recipe_copies_all_that_the_program_includes() {
        let recipe = read(&paths::root().join(RECIPE)).unwrap();
        let copies = recipe.lines().filter_map(|line| line.strip_prefix("COPY "));
        let copied: Vec<&str> = copies.flat_map(str::split_whitespace).collect();
        assert_eq!(resolved("a/b/c.rs", "../d/e.txt"), Path::new("a/d/e.txt"));
        let tree = Tree::read().unwrap();
        let mut count = 0;
        let shipped: HashSet<&str> = production(&tree, "crates/").iter().map(|one| one.0).collect();
        for (source, text) in tree.below("crates/").filter(|one| shipped.contains(one.0)) {
            // Tests come last, and are not compiled for the image.
            let code = text.split("#[cfg(test)]").next().unwrap();
            for included in code.split("include_str!(\"").skip(1) {
                let place = resolved(source, included.split('"').next().unwrap());
                assert!(copied.iter().any(|copy| place.starts_with(copy)), "{}", place.display());
                count += 1;
            }
        }
        assert!(count > 0, "no file is included: the rule looks for the wrong text");
    }

    #[test]
    fn the_last_stage_of_a_recipe_is_what_is_shipped() {
        let recipe = "FROM big AS build\nRUN make\nFROM small\nRUN one \\\n  two\nCOPY --from=build /a /b\n\
                      COPY here /there\n# note\nUSER 7:8\nENTRYPOINT [\"p\"]\nCMD [\"serve\", \"--x\"]\n";
        let stage = last_stage(recipe).unwrap();
        assert_eq!(stage.runs, ["one    two"]);
        assert_eq!(stage.copies, [("here".to_owned(), "/there".to_owned())]);
        assert_eq!((stage.user.as_str(), stage.program.join(" ")), ("7:8", "p serve --x".into()));
    }
}
