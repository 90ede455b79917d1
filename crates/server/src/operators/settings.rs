//! Redis' settings that `CONFIG SET` accepts or refuses, besides those in the configuration file.

use adt::record::events::Classes;
use engine::limits::{ACL_LOG_ENTRIES_MAX, SLOWLOG_COMMANDS_MAX};

/// Setting of Redis.
pub struct Known {
    /// Name.
    pub name: &'static str,
    /// Value when the server starts.
    pub value: &'static str,
    /// Accepted values.
    pub accepts: Accepts,
}

/// Accepted values of a setting.
#[derive(Clone, Copy)]
pub enum Accepts {
    /// Integers from the first to the second number.
    Numbers(i64, i64),
    /// `yes` and `no`.
    Switch,
    /// Sizes in bytes.
    Bytes,
    /// Letters of classes of keyspace events.
    Events,
    /// The value at the start only, for this reason.
    Same(&'static str),
}

const LARGE: i64 = i64::MAX;

const fn row(name: &'static str, value: &'static str, accepts: Accepts) -> Known {
    Known { name, value, accepts }
}

const fn number(name: &'static str, value: &'static str, least: i64, most: i64) -> Known {
    row(name, value, Accepts::Numbers(least, most))
}

const fn switch(name: &'static str, value: &'static str) -> Known {
    row(name, value, Accepts::Switch)
}

const fn same(name: &'static str, value: &'static str, why: &'static str) -> Known {
    row(name, value, Accepts::Same(why))
}

/// Settings that a running server follows.
pub const FOLLOWED: &[Known] = &[
    number("acllog-max-len", "128", 0, ACL_LOG_ENTRIES_MAX as i64),
    number("latency-monitor-threshold", "0", 0, LARGE),
    row("notify-keyspace-events", "", Accepts::Events),
    number("slowlog-log-slower-than", "10000", -1, LARGE),
    number("slowlog-max-len", "128", 0, SLOWLOG_COMMANDS_MAX as i64),
];

/// Settings about encodings and background work of Redis, which have no counterpart here: every value that
/// Redis accepts is accepted and shown, and changes nothing.
pub const WITHOUT_EFFECT: &[Known] = &[
    number("active-expire-effort", "1", 1, 10),
    switch("activedefrag", "no"),
    switch("activerehashing", "yes"),
    switch("aof-use-rdb-preamble", "yes"),
    row("auto-aof-rewrite-min-size", "67108864", Accepts::Bytes),
    number("auto-aof-rewrite-percentage", "100", 0, LARGE),
    switch("dynamic-hz", "yes"),
    number("hash-max-listpack-entries", "128", 0, LARGE),
    number("hash-max-listpack-value", "64", 0, LARGE),
    row("hll-sparse-max-bytes", "3000", Accepts::Bytes),
    number("hz", "10", 0, i32::MAX as i64),
    switch("lazyfree-lazy-eviction", "no"),
    switch("lazyfree-lazy-expire", "no"),
    switch("lazyfree-lazy-server-del", "no"),
    switch("lazyfree-lazy-user-del", "no"),
    switch("lazyfree-lazy-user-flush", "no"),
    number("list-compress-depth", "0", 0, i32::MAX as i64),
    number("list-max-listpack-size", "-2", i32::MIN as i64, i32::MAX as i64),
    number("maxmemory-samples", "5", 1, 64),
    switch("no-appendfsync-on-rewrite", "no"),
    switch("rdbchecksum", "yes"),
    switch("rdbcompression", "yes"),
    number("set-max-intset-entries", "512", 0, LARGE),
    number("set-max-listpack-entries", "128", 0, LARGE),
    number("set-max-listpack-value", "64", 0, LARGE),
    row("stream-node-max-bytes", "4096", Accepts::Bytes),
    number("stream-node-max-entries", "100", 0, LARGE),
    number("zset-max-listpack-entries", "128", 0, LARGE),
    number("zset-max-listpack-value", "64", 0, LARGE),
];

const USERS: &str =
    "users are in the configuration file, read at the start, or in the store (ACL SETUSER)";
const REPLICATION: &str = "replication is by consensus, and a majority has every write";

/// Settings that can be set to the value that they have, and to no other.
pub const FIXED: &[Known] = &[
    same("aclfile", "", USERS),
    same("latency-tracking", "yes", "durations of commands are always counted"),
    same("maxmemory-policy", "noeviction", "nothing is evicted"),
    same("min-replicas-to-write", "0", REPLICATION),
    same("requirepass", "", USERS),
    same("save", "", "a snapshot is written when the log is long enough for one"),
    same("timeout", "0", "idle connections are not closed"),
    same("tracking-table-max-keys", "1000000", "a gateway remembers so many keys for caches"),
];

/// All settings of Redis that are not in the configuration file, or are there under another name.
pub static ALL: [&[Known]; 3] = [FOLLOWED, WITHOUT_EFFECT, FIXED];

/// Setting with a name.
fn known(name: &str) -> Option<&'static Known> {
    ALL.iter().flat_map(|rows| rows.iter()).find(|known| known.name == name)
}

/// Checks a new value of a setting; returns the value to show, or the reason why it is refused.
pub fn check(name: &str, value: &str) -> Result<String, String> {
    let Some(known) = known(name) else {
        return Err(
            "can't set immutable config; change the configuration file and restart".to_owned()
        );
    };
    let shown = match known.accepts {
        Accepts::Numbers(least, most) => {
            let no_number = |_| "argument couldn't be parsed into an integer".to_owned();
            let number: i64 = value.parse().map_err(no_number)?;
            if !(least..=most).contains(&number) {
                return Err(format!("argument must be between {least} and {most} inclusive"));
            }
            number.to_string()
        }
        Accepts::Switch => match value.to_ascii_lowercase().as_str() {
            word @ ("yes" | "no") => word.to_owned(),
            _ => return Err("argument must be 'yes' or 'no'".to_owned()),
        },
        Accepts::Bytes => {
            let no_size = |_: String| "argument must be a memory value".to_owned();
            let bytes: crate::config::Bytes = value.parse().map_err(no_size)?;
            bytes.0.to_string()
        }
        Accepts::Events => {
            let wrong = || format!("Invalid event class character. Use '{}'.", Classes::ALLOWED);
            Classes::parse(value).ok_or_else(wrong)?.to_string()
        }
        Accepts::Same(_) if value.eq_ignore_ascii_case(known.value) => known.value.to_owned(),
        Accepts::Same(why) => return Err(why.to_owned()),
    };
    Ok(shown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::limits::{ACL_LOG_ENTRIES, SLOWLOG_COMMANDS, SLOWLOG_US};

    #[test]
    fn values_at_the_start_are_accepted_and_shown_as_they_are() {
        for known in ALL.iter().flat_map(|rows| rows.iter()) {
            assert_eq!(
                check(known.name, known.value).as_deref(),
                Ok(known.value),
                "{}",
                known.name
            );
        }
    }

    #[test]
    fn the_values_at_the_start_are_those_of_a_gateway() {
        let value = |name| known(name).map(|known| known.value.to_owned());
        assert_eq!(value("slowlog-log-slower-than"), Some(SLOWLOG_US.to_string()));
        assert_eq!(value("slowlog-max-len"), Some(SLOWLOG_COMMANDS.to_string()));
        assert_eq!(value("acllog-max-len"), Some(ACL_LOG_ENTRIES.to_string()));
    }

    #[test]
    fn wrong_values_get_the_reason() {
        for (name, value, why) in [
            ("slowlog-max-len", "-1", "between 0 and 4096"),
            ("slowlog-log-slower-than", "x", "integer"),
            ("activerehashing", "maybe", "'yes' or 'no'"),
            ("hll-sparse-max-bytes", "many", "memory value"),
            ("timeout", "5", "idle"),
            ("notify-keyspace-events", "KEq", "Ag$lshzxeKEtmdn"),
            ("requirepass", "geheim", "configuration file"),
            ("port", "1", "immutable"),
        ] {
            assert!(check(name, value).unwrap_err().contains(why), "{name}");
        }
    }

    #[test]
    fn the_guide_lists_each_setting() {
        let guide = include_str!("../../../../docs/operating/settings.md");
        for known in ALL.iter().flat_map(|rows| rows.iter()) {
            assert!(guide.contains(&format!("`{}`", known.name)), "{}", known.name);
        }
    }
}
