//! Permissions that rules give or take: one for each command, and for each subcommand of a container.

use crate::gateway::clients::session_commands::{all, position};
use adt::command::syntax;
use adt::{Args, CommandSpec, Flags};
use std::sync::OnceLock;

/// The categories that flags give; groups of commands add theirs.
const BY_FLAG: [(&str, Flags); 7] = [
    ("read", Flags::READ),
    ("write", Flags::WRITE),
    ("fast", Flags::FAST),
    ("admin", Flags::ADMIN),
    ("dangerous", Flags::DANGEROUS),
    ("blocking", Flags::BLOCKING),
    ("pubsub", Flags::PUBSUB),
];

const ADMIN: Flags = Flags::ADMIN.and(Flags::DANGEROUS);

/// Subcommands that need other rights than their container.
const OWN_FLAGS: [(&str, &str, Flags); 8] = [
    ("acl", "cat", Flags(0)),
    ("acl", "whoami", Flags(0)),
    ("client", "kill", ADMIN),
    ("client", "list", ADMIN),
    ("client", "no-evict", ADMIN),
    ("client", "pause", ADMIN),
    ("client", "unblock", ADMIN),
    ("client", "unpause", ADMIN),
];

/// Permission to call a command, or one of its subcommands.
pub struct Permission {
    /// The command.
    pub spec: &'static CommandSpec,
    /// The subcommand, in lower case; `None` for the command as a whole.
    pub subcommand: Option<String>,
    /// Bit i for category number i.
    categories: u64,
}

impl Permission {
    /// `name` or `name|subcommand`.
    pub fn full_name(&self) -> String {
        match &self.subcommand {
            Some(subcommand) => format!("{}|{subcommand}", self.spec.name),
            None => self.spec.name.to_owned(),
        }
    }

    /// Whether the permission belongs to category number `category`.
    pub fn is_in(&self, category: usize) -> bool {
        self.categories & (1 << category) != 0
    }
}

/// All permissions and categories.
pub struct Permissions {
    /// In the order of the commands' names; a command's subcommands follow it.
    pub all: Vec<Permission>,
    /// Where the permissions of each command begin, and one more for the end.
    starts: Vec<usize>,
    /// Names of the categories.
    pub categories: Vec<&'static str>,
}

impl Permissions {
    /// The permissions of the command that is at `position` in the table of all commands.
    pub fn of(&self, position: usize) -> std::ops::Range<usize> {
        self.starts[position]..self.starts[position + 1]
    }

    /// The permission that a call needs: the subcommand if it is known, else the command.
    pub fn called(&self, position: usize, args: &Args<'_>) -> usize {
        let range = self.of(position);
        let word = args.get(1).unwrap_or_default();
        let named = |i: &usize| {
            let name = self.all[*i].subcommand.as_ref();
            name.is_some_and(|s| s.as_bytes().eq_ignore_ascii_case(word))
        };
        range.clone().find(named).unwrap_or(range.start)
    }

    /// The permissions called `name` or `name|subcommand`.
    pub fn named(&self, name: &str) -> Option<Vec<usize>> {
        let (command, subcommand) = match name.split_once('|') {
            Some((command, subcommand)) => (command, Some(subcommand)),
            None => (name, None),
        };
        let mut range = self.of(position(command.as_bytes())?);
        match subcommand {
            None => Some(range.collect()),
            Some(wanted) => range
                .find(|&i| {
                    let name = self.all[i].subcommand.as_ref();
                    name.is_some_and(|s| s.eq_ignore_ascii_case(wanted))
                })
                .map(|i| vec![i]),
        }
    }

    /// Number of the category called `name`.
    pub fn category(&self, name: &str) -> Option<usize> {
        self.categories.iter().position(|c| c.eq_ignore_ascii_case(name))
    }

    /// Names of the categories of a command as a whole.
    pub fn categories_of(&self, spec: &CommandSpec) -> impl Iterator<Item = &'static str> + '_ {
        let permission = position(spec.name.as_bytes()).map(|p| &self.all[self.starts[p]]);
        self.categories
            .iter()
            .enumerate()
            .filter(move |(i, _)| permission.is_some_and(|p| p.is_in(*i)))
            .map(|(_, name)| *name)
    }
}

/// The category of a group of commands, if the group has one.
fn of_group(group: &'static str) -> Option<&'static str> {
    match group {
        "generic" => Some("keyspace"),
        "transactions" => Some("transaction"),
        "sorted-set" | "sorted_set" | "zset" => Some("sortedset"),
        "server" | "cluster" => None,
        other => Some(other),
    }
}

fn bits(categories: &mut Vec<&'static str>, spec: &CommandSpec, flags: Flags) -> u64 {
    let mut names: Vec<&'static str> =
        BY_FLAG.iter().filter(|(_, flag)| flags.has(*flag)).map(|(name, _)| *name).collect();
    if !flags.has(Flags::FAST) {
        names.push("slow");
    }
    names.extend(of_group(spec.group));
    if spec.group == "server" && (flags.has(Flags::READ) || flags.has(Flags::WRITE)) {
        names.push("keyspace");
    }
    let mut bits = 0;
    for name in names {
        let number = categories.iter().position(|c| *c == name).unwrap_or_else(|| {
            categories.push(name);
            categories.len() - 1
        });
        assert!(number < 64, "a set of 64 categories is enough for the command table");
        bits |= 1 << number;
    }
    bits
}

/// The permissions of the command table, made once.
pub fn permissions() -> &'static Permissions {
    static PERMISSIONS: OnceLock<Permissions> = OnceLock::new();
    PERMISSIONS.get_or_init(|| {
        let mut made = Permissions { all: Vec::new(), starts: vec![0], categories: Vec::new() };
        for &spec in all() {
            let mut add = |subcommand: Option<String>, flags| {
                let categories = bits(&mut made.categories, spec, flags);
                made.all.push(Permission { spec, subcommand, categories });
            };
            add(None, spec.flags);
            for (subcommand, _) in syntax::subcommands(spec.syntax) {
                let own = OWN_FLAGS.iter().find(|o| o.0 == spec.name && o.1 == subcommand);
                add(Some(subcommand), own.map_or(spec.flags, |o| o.2));
            }
            made.starts.push(made.all.len());
        }
        made
    })
}
