//! The part of the page of differences that says what Claret has of Redis' and Valkey's commands.

use adt::known::{self, Known, Standing, shown};
use std::fmt::Write;

/// The tables, group by group, in Markdown.
pub fn differences() -> String {
    let mut page = String::new();
    for rows in known::all().chunk_by(|a, b| a.group == b.group) {
        let first = if page.is_empty() { "" } else { "\n" };
        put(&mut page, format_args!("{first}### {}\n\n", rows[0].group));
        page.push_str("| in Claret | commands |\n|---|---|\n");
        for alike in rows.chunk_by(|a, b| a.standing == b.standing) {
            let names: Vec<_> = alike.iter().map(name).collect();
            put(
                &mut page,
                format_args!("| {} | {} |\n", says(alike[0].standing), names.join(", ")),
            );
        }
    }
    page
}

fn put(page: &mut String, text: std::fmt::Arguments<'_>) {
    page.write_fmt(text).expect("writing to memory");
}

fn name(row: &Known) -> String {
    let shown = shown(row.name);
    match row.since {
        None => format!("`{shown}`"),
        Some(since) => format!("`{shown}` ({})", since.replace('V', "Valkey ")),
    }
}

fn says(standing: Standing) -> String {
    let (word, more) = match standing {
        Standing::Yes => return "yes".to_owned(),
        Standing::Partly(more) => ("partly", more),
        Standing::Planned(more) => ("planned", more),
        Standing::No(more) => ("no", more),
    };
    let more: Vec<_> = more.split_whitespace().collect();
    format!("{word}: {}", more.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::clients::connection::hello::REDIS_VERSION;
    use crate::gateway::clients::session_commands;
    use std::collections::BTreeSet;

    /// Every command and sub-command that Claret has, as the table names them.
    fn built() -> BTreeSet<String> {
        let with_subs = |spec: &&adt::CommandSpec| {
            let (name, syntax) = (spec.name, spec.syntax);
            let mut subs: Vec<String> =
                adt::command::syntax::subcommands(syntax).into_iter().map(|(sub, _)| sub).collect();
            if !subs.is_empty() {
                subs.push("help".to_owned());
            }
            let subs = subs.into_iter().map(move |sub| format!("{name}|{sub}"));
            std::iter::once(name.to_owned()).chain(subs)
        };
        session_commands::all().iter().flat_map(with_subs).collect()
    }

    #[test]
    fn the_table_says_of_each_command_whether_claret_has_it() {
        let built = built();
        for row in known::all() {
            let have = built.contains(row.name);
            assert_eq!(row.standing.is_built(), have, "commands.txt is wrong about {}", row.name);
        }
    }

    #[test]
    fn a_command_that_the_table_has_not_is_claret_s_own() {
        let own = ["txn", "fence", "shardmap", "client|order", "client|request"];
        let other = ["backup|", "failover|", "txn|", "shardmap|"];
        for name in built() {
            let known = known::lookup(&name).is_some();
            let ours = name.contains('.') || own.contains(&name.as_str());
            let ours = ours || other.iter().any(|begin| name.starts_with(begin));
            assert!(known || ours, "commands.txt does not have {name}");
        }
    }

    /// The words of a version.
    fn version(text: &str) -> (u32, u32) {
        let mut parts = text.split('.').map(|part| part.parse().expect("a number"));
        (parts.next().expect("major"), parts.next().expect("minor"))
    }

    #[test]
    fn the_version_promised_is_the_newest_whose_new_commands_are_there() {
        let of_redis = known::all()
            .iter()
            .filter_map(|row| Some((row.since.filter(|v| !v.starts_with('V'))?, row.standing)));
        let absent = of_redis.clone().filter(|(_, standing)| !standing.is_built());
        let first_absent = absent.map(|(since, _)| version(since)).min();
        let there = of_redis
            .map(|(since, _)| version(since))
            .filter(|v| first_absent.is_none_or(|first| *v < first));
        assert_eq!(version(REDIS_VERSION), there.max().unwrap_or((7, 2)));
    }

    #[test]
    fn the_page_shows_every_name_once() {
        let page = differences();
        for row in known::all() {
            let shown = name(row);
            let cells = page.lines().filter_map(|line| line.split(" | ").nth(1));
            let names = cells.flat_map(|cell| cell.trim_end_matches(" |").split(", "));
            assert_eq!(names.filter(|name| *name == shown).count(), 1, "{shown}");
        }
        for line in page.lines() {
            assert!(!line.starts_with('|') || line.matches('|').count() == 3, "{line}");
        }
        assert!(page.contains("| no: for Redis' own files | `XIDMPRECORD` (8.8) |"));
        assert!(page.contains("`DELIFEQ` (Valkey 9.0)"));
        assert!(page.ends_with("|\n") && !page.contains("\n\n\n"));
    }
}
