//! `cargo xtask first-hour`: what a new user does in the first hour, by the pages, with the time of each
//! step: install, tutorial, a transaction, `kill -9`, a cluster of three of which one is killed.

use crate::background::{Background, free_ports};
use crate::dist::{Dist, wheels};
use crate::paths;
use crate::process::{command, limited, output, said, start};
use crate::report::Report;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const PAGE: &str = "docs/start/first-hour.md";

/// Longest time of all steps, in seconds.
const BUDGET_SECONDS: u64 = 900;

/// Longest time of one program, in seconds.
const PROGRAM_SECONDS: u64 = 60;

/// Longest time until a cluster has leaders, in seconds.
const LEADERS_SECONDS: u64 = 30;

/// For how long a client counts before its server is killed.
const COUNTING: Duration = Duration::from_secs(1);

/// A new user's folder, server and interpreter.
struct Hour {
    folder: PathBuf,
    /// Port of the only server, then of the first of the cluster. The next five are for the others,
    /// and for their connections with each other.
    port: u16,
    claret: PathBuf,
    python: PathBuf,
    page: String,
}

/// Goes through the hour, with a program that was built or with that of a release build.
pub fn run(words: &[&str]) -> Result<(), String> {
    let binary = match words {
        [] => None,
        ["--binary", path] => Some(*path),
        _ => return Err("first-hour takes --binary PATH only".into()),
    };
    let dist = Dist::new(binary, None)?;
    let folder = paths::target().join("first-hour");
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|error| format!("cannot begin anew: {error}"))?;
    }
    let page = fs::read_to_string(paths::root().join(PAGE))
        .map_err(|error| format!("cannot read {PAGE}: {error}"))?;
    let made = wheels::build(&dist)?;
    let (mut report, mut python) = (Report::new(BUDGET_SECONDS), None);
    report.check("install with pip", || {
        python = Some(wheels::install(&dist, &folder, &made)?);
        Ok(())
    });
    if let Some(python) = python {
        let claret = python.with_file_name("claret");
        let hour = Hour { port: free_ports(6)?, claret, python, page, folder };
        hour.alone(&mut report);
        hour.cluster(&mut report);
    }
    report.finish()
}

impl Hour {
    /// One server: the sections 1 to 6 of the page.
    fn alone(&self, report: &mut Report) {
        let mut server = None;
        report.check("start a server", || {
            server = Some(self.serve()?);
            Ok(())
        });
        report.check("first keys", || self.typed("2. The first keys"));
        report.check("first transaction", || self.typed("3. A transaction"));
        report.check("the same from Python, and a hot counter", || {
            let sections = ["4. The same from Python", "6. A hot counter"];
            let programs = sections.map(|title| python_of(section(&self.page, title)));
            let program = programs.concat().replace("6379", &self.port.to_string());
            if !program.contains("Counter(") || !program.contains("db.run(") {
                return Err(format!("{PAGE} has no program in {}", sections.join(" and ")));
            }
            let file = self.folder.join("tutorial.py");
            fs::write(&file, program).map_err(|error| error.to_string())?;
            start(&mut limited(PROGRAM_SECONDS, command(&self.python, &[]).arg(file)))
        });
        report.check("kill -9, and start again", || match server.take() {
            Some(first) => self.killed(first),
            None => Err("there is no server".into()),
        });
    }

    /// Three servers: section 7 of the page.
    fn cluster(&self, report: &mut Report) {
        let mut servers: Vec<Option<Background>> = Vec::new();
        report.check("cluster of three", || {
            let places = (3..6).map(|n| format!("127.0.0.1:{}", self.port + n));
            let mut init = command(&self.claret, &["cluster", "init"]);
            init.args(places).args(["--into", "shop", "--port", &self.port.to_string()]);
            start(init.current_dir(&self.folder))?;
            for number in 1..=3 {
                servers.push(Some(self.machine(number)?));
            }
            self.await_leaders("")?;
            self.expect(0, &["SET", "across", "machines"], "OK")?;
            self.expect(1, &["GET", "across"], "\"machines\"")
        });
        report.check("one of three is killed", || {
            servers.get_mut(1).and_then(Option::take).ok_or("there is no second server")?.kill()?;
            self.expect(2, &["GET", "across"], "\"machines\"")?;
            self.expect(2, &["INCR", "visits"], "(integer) 1")?;
            self.await_leaders("NOT CONNECTED: 2")
        });
        report.check("it comes back", || {
            servers.push(Some(self.machine(2)?));
            self.await_leaders("")?;
            self.expect(1, &["GET", "visits"], "\"1\"")?;
            start(&mut self.cluster_command(&["rebalance"]))
        });
    }

    fn serve(&self) -> Result<Background, String> {
        let mut serve = command(&self.claret, &["serve", "--dir", "shop-data", "--port"]);
        serve.arg(self.port.to_string()).current_dir(&self.folder);
        Background::serve(&mut serve, &self.folder.join("server.txt"))
    }

    fn machine(&self, number: u16) -> Result<Background, String> {
        let mut serve = command(&self.claret, &["serve", "--config"]);
        serve.arg(format!("shop/n{number}.toml")).current_dir(&self.folder);
        Background::serve(&mut serve, &self.folder.join(format!("machine-{number}.txt")))
    }

    fn cli(&self, number: u16) -> Command {
        command("redis-cli", &["--no-raw", "-p", &(self.port + number).to_string()])
    }

    /// Types what the page types, and compares the answers with the page's.
    fn typed(&self, title: &str) -> Result<(), String> {
        let (mut input, mut wanted) = (String::new(), String::new());
        for line in section(&self.page, title).lines().filter_map(|line| line.strip_prefix("    "))
        {
            match line.strip_prefix("> ") {
                Some(typed) => input += &format!("{typed}\n"),
                // How the session is started.
                None if line.starts_with("$ ") => {}
                None => wanted += &format!("{line}\n"),
            }
        }
        if input.is_empty() {
            return Err(format!("{PAGE} types nothing in {title}"));
        }
        let path = self.folder.join("typed.txt");
        fs::write(&path, &input).map_err(|error| error.to_string())?;
        let file = fs::File::open(&path).map_err(|error| error.to_string())?;
        let mut cli = limited(PROGRAM_SECONDS, &self.cli(0));
        compare(title, &said(cli.stdin(file))?, &wanted)
    }

    fn expect(&self, number: u16, words: &[&str], wanted: &str) -> Result<(), String> {
        let mut cli = limited(PROGRAM_SECONDS, self.cli(number).args(words));
        compare(&words.join(" "), &output(&mut cli)?.1, wanted)
    }

    /// Section 5 of the page: counts, kills, and looks whether what was answered is there.
    fn killed(&self, server: Background) -> Result<(), String> {
        let answers = self.folder.join("replies.txt");
        let mut count = command("redis-cli", &["-r", "1000000", "-p", &self.port.to_string()]);
        let mut counting = Background::start(count.args(["INCR", "counted"]), &answers)?;
        let begin = Instant::now();
        counting.until("a second is over", || begin.elapsed() > COUNTING)?;
        server.kill()?;
        drop(counting);
        let answered = last_number(&answers)?;
        let _server = self.serve()?;
        let mut get = command("redis-cli", &["-p", &self.port.to_string(), "GET", "counted"]);
        let (_, found) = output(&mut get)?;
        let found: u64 = found.trim().parse().map_err(|_| format!("the counter is {found:?}"))?;
        println!("{answered} were answered, {found} are there");
        if answered == 0 || !(answered..=answered + 1).contains(&found) {
            return Err(format!("{answered} were answered, and {found} are there"));
        }
        self.expect(0, &["GET", "stock:apples"], "\"3\"")
    }

    fn cluster_command(&self, words: &[&str]) -> Command {
        let url = format!("redis://127.0.0.1:{}", self.port);
        let mut cluster = command(&self.claret, &["cluster"]);
        cluster.args(words).args(["--url", &url]);
        limited(PROGRAM_SECONDS, &cluster)
    }

    /// Waits until `claret cluster status` tells of this problem, or of none, and all shards have leaders.
    fn await_leaders(&self, problem: &str) -> Result<(), String> {
        let end = Instant::now() + Duration::from_secs(LEADERS_SECONDS);
        loop {
            let (status, text) = output(&mut self.cluster_command(&["status"]))?;
            let has_leaders = status.success() && !text.contains("NO LEADER");
            let is_told = match problem {
                "" => !text.contains("NOT CONNECTED"),
                problem => text.contains(problem),
            };
            if has_leaders && is_told {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(format!(
                    "claret cluster status says after {LEADERS_SECONDS} s:\n{text}"
                ));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// A section of a page, without its title; empty if there is none.
fn section<'page>(page: &'page str, title: &str) -> &'page str {
    let after = page.split_once(&format!("## {title}\n")).map_or("", |(_, after)| after);
    after.split("\n## ").next().unwrap_or_default().trim_matches('\n')
}

/// The programs in Python of a section.
fn python_of(section: &str) -> String {
    let is_program =
        |block: &str| ["    from ", "    import "].iter().any(|b| block.starts_with(b));
    let mut program = String::new();
    let mut is_inside = false;
    for block in section.split("\n\n") {
        is_inside = block.starts_with("    ") && (is_inside || is_program(block));
        if is_inside {
            for line in block.lines() {
                program += line.strip_prefix("    ").unwrap_or(line);
                program.push('\n');
            }
            program.push('\n');
        }
    }
    program
}

fn compare(what: &str, found: &str, wanted: &str) -> Result<(), String> {
    if found.trim() == wanted.trim() {
        return Ok(());
    }
    Err(format!("{what}: the answers are\n{}\ninstead of\n{}", found.trim(), wanted.trim()))
}

/// The last whole line that is a number.
fn last_number(path: &Path) -> Result<u64, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("cannot read answers: {error}"))?;
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    Ok(whole.lines().rev().find_map(|line| line.parse().ok()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_taken_from_their_section_with_their_blank_lines() {
        let page = "# P\n\n## 1. One\n\n    pip install x\n\ntext\n\n    from a import b\n\n    \
                    def f():\n        return 1\n\n    f()\n\ntext\n\n    > typed\n\n## 2. Two\n\n    \
                    import c\n";
        assert_eq!(
            python_of(section(page, "1. One")),
            "from a import b\n\ndef f():\n    return 1\n\nf()\n\n"
        );
        assert_eq!(python_of(section(page, "2. Two")), "import c\n\n");
        assert_eq!(section(page, "3. Three"), "");
    }
}
