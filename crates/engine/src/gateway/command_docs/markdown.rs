//! The reference page of all commands.

use super::{commuting, flag_names, permissions};
use crate::gateway::clients::session_commands::all;
use adt::known::{self, Standing};
use adt::{CommandSpec, Keys, record};
use std::collections::BTreeMap;
use std::fmt::Write;

const HEAD: &str = "# Commands

This page is generated from the command table by `claret commands --markdown`; do not edit it.

In a syntax, words in capitals are keywords (in any case), other words are arguments; `[...]` is
optional, `a | b` is a choice, `x [x ...]` is one or more. *Words* counts the name and all
arguments; with \"or more\" it is the smallest number. Names, arguments and replies are those of
Redis unless a command says otherwise.
";

const LOCKS: &str = "
## Lock modes

Transactions that access one key run concurrently when their accesses commute. Each access has one
of its type's lock modes; a yes means that accesses in the two modes commute whatever the value is.
Where a cell is empty, the members, fields and values decide. A mode with *+reply* is for writes
whose reply is observed before the transaction commits; the same mode without it is for *void*
writes. Reads of any kind share with reads.
";

const COMMUTING: &str = "
## Commuting

A transaction waits for another one only where their calls do not commute. This page compares the
commands of a type, called on one key by two open transactions (`TXN`) that see the replies:

- *always*: neither waits, whatever the arguments and the value are.
- *if* something holds, as when the members are different ones: then neither waits.
- *never*: the second one waits, at its call or at its commit, until the first one has ended.

Writes are meant that change the value: one that changes nothing waits for no read. The key does
not expire. Of the keys of a command it is the one that is written, if there is one; those that are
only read are read as a whole.

Writes whose replies are not seen before the commit never wait for each other: a command alone,
everything in `MULTI`, and writes after `TXN BEGIN BLIND`. They wait only for open transactions that
were told what they would change.
";

/// The page, in Markdown.
pub fn markdown() -> String {
    let mut groups: BTreeMap<&str, Vec<&CommandSpec>> = BTreeMap::new();
    for spec in all() {
        groups.entry(spec.group).or_default().push(spec);
    }
    let mut page = HEAD.to_owned();
    for (group, commands) in &groups {
        put(&mut page, format_args!("- [{}](#{group}-commands):", title(group)));
        let names: Vec<_> = commands
            .iter()
            .map(|c| format!("[{}](#{})", c.name, c.name.replace('.', "")))
            .collect();
        put(&mut page, format_args!(" {}\n", names.join(", ")));
    }
    let page = page.replacen("\n- [", "\n\n- [", 1);
    let mut page = page + "- [Commuting](#commuting)\n- [Lock modes](#lock-modes)\n";
    for (group, commands) in &groups {
        put(&mut page, format_args!("\n## {} commands\n", title(group)));
        for spec in commands {
            command(&mut page, spec);
        }
    }
    commuting(&mut page);
    locks(&mut page);
    page
}

fn put(page: &mut String, text: std::fmt::Arguments<'_>) {
    page.write_fmt(text).expect("writing to memory");
}

fn title(group: &str) -> String {
    let (first, rest) = group.split_at(1);
    first.to_uppercase() + rest
}

fn command(page: &mut String, spec: &CommandSpec) {
    let name = spec.name;
    put(page, format_args!("\n### {name}\n\n`{} {}", name.to_uppercase(), spec.syntax));
    if page.ends_with(' ') {
        page.pop();
    }
    put(page, format_args!("`\n\n{}\n\n", spec.summary));
    let more = if spec.arity < 0 { " or more" } else { "" };
    put(page, format_args!("- Complexity: {}\n", spec.complexity));
    put(page, format_args!("- Words: {}{more}\n", spec.arity.unsigned_abs()));
    put(page, format_args!("- Keys: {}\n", keys(spec.keys)));
    let flags = flag_names(spec).join(", ");
    if !flags.is_empty() {
        put(page, format_args!("- Flags: {flags}\n"));
    }
    let categories: Vec<_> = permissions().categories_of(spec).map(|c| format!("`@{c}`")).collect();
    put(page, format_args!("- Access control: {}\n", categories.join(" ")));
    match known::lookup(name).map(|known| known.standing) {
        None => page.push_str("- Redis does not have it.\n"),
        Some(Standing::Partly(how)) => {
            let how: Vec<_> = how.split_whitespace().collect();
            put(page, format_args!("- Compared with Redis: {}.\n", how.join(" ")));
        }
        Some(_) => {}
    }
}

fn keys(keys: Keys) -> String {
    match keys {
        Keys::None => "none".to_owned(),
        Keys::Range { first, last, .. } if first == last => format!("argument {first}"),
        Keys::Range { first, last, step } => {
            let last = match last {
                -1 => "the last".to_owned(),
                last if last < 0 => format!("the last but {}", -1 - last),
                last => last.to_string(),
            };
            let every = if step > 1 { format!(", every {step}.") } else { String::new() };
            format!("arguments {first} to {last}{every}")
        }
        Keys::Behind { word, .. } => format!("the first half of the arguments behind {word}"),
        Keys::Declared { at } => format!("as many after argument {at} as it says, perhaps none"),
        Keys::Conditions => "those of the conditions".to_owned(),
        Keys::Sort => "argument 1, and the one behind STORE".to_owned(),
        Keys::Pairs { at } => format!("as many pairs after argument {at} as it says, every 2."),
        Keys::Counted { at, also } => {
            let also = if also > 0 { format!("argument {also}, and ") } else { String::new() };
            format!("{also}as many after argument {at} as it says")
        }
    }
}

fn commuting(page: &mut String) {
    page.push_str(COMMUTING);
    for (group, kinds) in commuting::by_groups() {
        put(page, format_args!("\n### Commuting of {group}\n\n"));
        for (commands, facts) in kinds {
            let facts: Vec<_> =
                facts.iter().map(|(when, others)| format!("{when} with {others}")).collect();
            put(page, format_args!("- {}: {}.\n", commands.join(", "), facts.join("; ")));
        }
    }
}

fn locks(page: &mut String) {
    page.push_str(LOCKS);
    for (type_name, modes, shared) in record::lock_modes() {
        put(page, format_args!("\n### Modes of {type_name}\n\n| |"));
        for mode in modes {
            put(page, format_args!(" {mode} |"));
        }
        put(page, format_args!("\n|---|{}\n", "---|".repeat(modes.len())));
        for (i, mode) in modes.iter().enumerate() {
            put(page, format_args!("| {mode} |"));
            for other in 0..modes.len() {
                let yes = shared.get(i).is_some_and(|mask| mask & (1 << other) != 0);
                page.push_str(if yes { " yes |" } else { " |" });
            }
            page.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_command_and_every_type() {
        let page = markdown();
        for spec in all() {
            assert!(page.contains(&format!(
                "\n### {}\n\n`{}",
                spec.name,
                spec.name.to_uppercase()
            )));
        }
        for (type_name, modes, _) in record::lock_modes() {
            assert!(page.contains(&format!("### Modes of {type_name}\n")));
            assert!(modes.len() <= 8, "{type_name}");
        }
        assert!(!page.contains("\n\n\n") && !page.contains(" \n") && page.ends_with('\n'));
    }

    #[test]
    fn links_lead_to_headings() {
        let page = markdown();
        let anchor = |line: &str| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            title.replace(' ', "-").replace('.', "")
        };
        let headings: Vec<String> =
            page.lines().filter(|l| l.starts_with('#')).map(anchor).collect();
        for (i, _) in page.match_indices("](#") {
            let target = page[i + 3..].split(')').next().unwrap();
            assert_eq!(headings.iter().filter(|h| *h == target).count(), 1, "{target}");
        }
    }

    #[test]
    fn tables_have_as_many_columns_as_their_head() {
        let page = markdown();
        let mut columns = 0;
        for line in page.lines() {
            if !line.starts_with('|') {
                columns = 0;
                continue;
            }
            let bars = line.matches('|').count();
            assert!(columns == 0 || columns == bars, "{line}");
            columns = bars;
        }
    }
}
