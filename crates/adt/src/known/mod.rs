//! Table of the commands of Redis and Valkey, with Claret's support for each: `commands.txt`.
//!
//! The server answers from it, so that a program that needs an absent command gets a reason instead
//! of "unknown command"; docs/reference/redis-commands.md shows it; tests compare it with the command
//! table.

use crate::{Args, ErrorReply};
use std::collections::HashMap;
use std::sync::OnceLock;

const TABLE: &str = include_str!("commands.txt");
/// Longest name, in bytes. A longer word cannot be a command's name.
const NAME_BYTES_MAX: usize = 32;
const ABSENT: &str = "is not built in Claret: see docs/guide/differences.md";

/// Claret's support for a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Supported as in Redis.
    Yes,
    /// Supported in part; the text names the difference.
    Partly(&'static str),
    /// Planned; the text names the feature that it belongs to.
    Planned(&'static str),
    /// Absent; the text gives the reason or an alternative.
    No(&'static str),
}

impl Standing {
    /// Whether the command is supported at least in part.
    pub fn is_built(self) -> bool {
        matches!(self, Self::Yes | Self::Partly(_))
    }
}

/// One command, or sub-command, of Redis or Valkey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Name in lower case; for a sub-command `container|name`.
    pub name: &'static str,
    /// Heading of the command's group.
    pub group: &'static str,
    /// Version that introduced it, `8.4` of Redis or `V9.0` of Valkey, if that is after 7.2.
    pub since: Option<&'static str>,
    /// Claret's support for it.
    pub standing: Standing,
}

impl Known {
    /// Text of the error for a call of the absent command.
    pub fn absence(&self) -> String {
        format!("'{}' {ABSENT}", shown(self.name))
    }
}

struct Table {
    rows: Vec<Known>,
    positions: HashMap<&'static str, usize>,
}

/// All rows, group by group.
pub fn all() -> &'static [Known] {
    &table().rows
}

/// Row of a name in lower case.
pub fn lookup(name: &str) -> Option<&'static Known> {
    let table = table();
    table.positions.get(name).map(|&i| &table.rows[i])
}

/// The error for a call of a command that Redis or Valkey has and Claret lacks, or of an absent
/// sub-command of a supported one.
pub fn not_built(args: &Args<'_>) -> Option<ErrorReply> {
    let word = |i| {
        let word = args.get(i).filter(|word| word.len() <= NAME_BYTES_MAX)?;
        Some(std::str::from_utf8(word).ok()?.to_ascii_lowercase())
    };
    let command = lookup(&word(0)?)?;
    let sub = || lookup(&format!("{}|{}", command.name, word(1)?));
    let known = if command.standing.is_built() { sub()? } else { command };
    if known.standing.is_built() {
        return None;
    }
    // Clients find out by the first words of the text what a server lacks.
    let text = match known.name.split_once('|') {
        None => format!("unknown command '{}', which {ABSENT}", shown(known.name)),
        Some((_, sub)) => {
            format!("unknown subcommand '{}': {} {ABSENT}", shown(sub), shown(known.name))
        }
    };
    Some(ErrorReply::err(text))
}

/// A name in the form in which users type it.
pub fn shown(name: &str) -> String {
    name.to_uppercase().replace('|', " ")
}

/// The table, built at the first use.
fn table() -> &'static Table {
    static BUILT: OnceLock<Table> = OnceLock::new();
    BUILT.get_or_init(|| {
        let rows = read(TABLE);
        let positions = rows.iter().enumerate().map(|(i, row)| (row.name, i)).collect();
        Table { rows, positions }
    })
}

/// Parses the table. It is part of the program, so a row that does not parse is a broken invariant.
fn read(text: &'static str) -> Vec<Known> {
    let mut rows = Vec::new();
    let mut group = "";
    for entry in entries(text) {
        let (kind, rest) = entry.split_once(' ').expect("a kind and names");
        if kind == "group" {
            group = rest.trim();
            continue;
        }
        let (names, words) = rest.split_once("::").unwrap_or((rest, ""));
        let standing = match (kind, words.trim()) {
            ("yes", "") => Standing::Yes,
            ("partly", words) if !words.is_empty() => Standing::Partly(words),
            ("planned", words) if !words.is_empty() => Standing::Planned(words),
            ("no", words) if !words.is_empty() => Standing::No(words),
            _ => panic!("neither a kind nor a reason: {entry}"),
        };
        for word in names.split_whitespace() {
            let (name, since) = word.split_once('@').map_or((word, None), |(n, v)| (n, Some(v)));
            rows.push(Known { name, group, since, standing });
        }
    }
    rows
}

/// Entries of the table, each with its indented continuation lines.
fn entries(text: &'static str) -> Vec<&'static str> {
    let mut entries = Vec::new();
    let mut begin = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let goes_on = line.starts_with("  ");
        if !goes_on {
            entries.extend(begin.take().map(|from: usize| text[from..at].trim()));
            let empty = line.trim().is_empty() || line.starts_with('#');
            begin = (!empty).then_some(at);
        }
        at += line.len();
    }
    entries.extend(begin.map(|from| text[from..].trim()));
    entries
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ArgBuf;

    fn absence_of(line: &str) -> Option<String> {
        not_built(&ArgBuf::of(line.split(' ')).args()).map(|error| error.to_string())
    }

    #[test]
    fn every_name_stands_once_and_below_a_group() {
        assert_eq!(table().positions.len(), all().len());
        for row in all() {
            assert!(!row.group.is_empty() && row.name == row.name.to_lowercase(), "{row:?}");
            let (command, sub) = row.name.split_once('|').unwrap_or((row.name, ""));
            let container = lookup(command).unwrap_or_else(|| panic!("{command} of {row:?}"));
            let odd = row.standing.is_built() && !container.standing.is_built();
            assert!(command.len().max(sub.len()) <= NAME_BYTES_MAX, "{row:?}");
            assert!(sub.is_empty() || !odd, "{row:?} is there and its container is not");
        }
    }

    #[test]
    fn a_version_is_one_after_7_2() {
        for row in all() {
            let Some(since) = row.since else { continue };
            let (major, minor) = since.trim_start_matches('V').split_once('.').expect("a version");
            let version: (u32, u32) = (major.parse().unwrap(), minor.parse().unwrap());
            assert!(((7, 3)..(10, 0)).contains(&version), "{row:?}");
        }
    }

    #[test]
    fn an_absent_command_is_reported_by_its_name() {
        let built = |name: &str| {
            let what = match name.split_once(' ') {
                Some((_, sub)) => format!("unknown subcommand '{sub}': {name}"),
                None => format!("unknown command '{name}', which"),
            };
            Some(format!("ERR {what} is not built in Claret: see docs/guide/differences.md"))
        };
        assert_eq!(absence_of("xidmprecord s p i 1-1"), built("XIDMPRECORD"));
        assert_eq!(absence_of("WAITAOF 0 0 0"), built("WAITAOF"));
        assert_eq!(absence_of("Script debug yes"), built("SCRIPT DEBUG"));
        assert_eq!(absence_of("HOTKEYS nosuch"), built("HOTKEYS"));
        for other in ["get a", "nosuch", "client id", "client nosuch", "client", "txn begin"] {
            assert_eq!(absence_of(other), None, "{other}");
        }
    }

    #[test]
    fn entries_go_on_where_lines_are_indented() {
        let rows = read("# a\ngroup A b\nyes x\n  y@8.0\n\nno z|w@V9.0 :: why\n  so\n");
        let names: Vec<_> = rows.iter().map(|row| (row.name, row.since)).collect();
        assert_eq!(names, [("x", None), ("y", Some("8.0")), ("z|w", Some("V9.0"))]);
        assert_eq!(rows[2].standing, Standing::No("why\n  so"));
        assert_eq!(rows[0].group, "A b");
    }
}
