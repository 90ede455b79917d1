//! `ACL LOG`: commands that were refused for want of a right, and logins with a wrong password.

use crate::limits::{ACL_LOG_ENTRIES, ACL_OBJECT_BYTES_MAX};
use crate::now::Now;
use adt::{Blob, Reply};
use std::collections::VecDeque;

/// Time within which the same refusal is counted and not listed again, in milliseconds.
const SAME_MS: u64 = 60_000;

/// Reason of a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denied {
    /// The user may not call this command.
    Command(String),
    /// The user may not access this key.
    Key(Blob),
    /// The user may not read all keys, which this option of `SORT` could name.
    Lookup(&'static str),
    /// The user may not use this channel.
    Channel(Blob),
    /// The password was wrong; the command that had it.
    Login(&'static str),
}

impl Denied {
    fn reason(&self) -> (&'static str, &[u8]) {
        match self {
            Self::Command(name) => ("command", name.as_bytes()),
            Self::Key(key) => ("key", key),
            Self::Lookup(option) => ("key", option.as_bytes()),
            Self::Channel(channel) => ("channel", channel),
            Self::Login(command) => ("auth", command.as_bytes()),
        }
    }
}

/// Refusals of one kind within a minute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    id: u64,
    count: u64,
    reason: &'static str,
    context: &'static str,
    object: Blob,
    user: String,
    client: String,
    created_ms: u64,
    updated_ms: u64,
}

impl Denial {
    /// Whether another denial is of the same kind, and came soon before or after.
    fn is_like(&self, other: &Self) -> bool {
        let same = |denial: &Self| (denial.reason, denial.context);
        same(self) == same(other)
            && self.object == other.object
            && self.user == other.user
            && self.updated_ms.abs_diff(other.updated_ms) <= SAME_MS
    }

    /// Counts another denial of the same kind.
    fn join(&mut self, other: Self) {
        self.count += other.count;
        self.created_ms = self.created_ms.min(other.created_ms);
        if other.updated_ms >= self.updated_ms {
            (self.updated_ms, self.client) = (other.updated_ms, other.client);
        }
    }
}

/// Refusals at one gateway, the newest last.
pub struct Denials {
    most: usize,
    entries: VecDeque<Denial>,
    /// Number of this gateway, and of all.
    gateway: (u64, u64),
    last_id: u64,
}

impl Denials {
    /// Refusals at the gateway with this number out of so many.
    pub fn new(gateway: u16, gateways: u16) -> Self {
        let gateway = (gateway.into(), u64::from(gateways.max(1)));
        Self { most: ACL_LOG_ENTRIES, entries: VecDeque::new(), gateway, last_id: 0 }
    }

    /// Sets how many entries are kept at most.
    pub fn set_most(&mut self, most: usize) {
        self.most = most;
        let surplus = self.entries.len().saturating_sub(most);
        self.entries.drain(..surplus);
    }

    /// Follows a setting, if it is about these entries.
    pub fn configure(&mut self, name: &str, value: &str) {
        if let ("acllog-max-len", Ok(most)) = (name, value.parse()) {
            self.set_most(most);
        }
    }

    /// Most entries that are kept.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Notes a refusal of a user, in this context and of this client.
    pub fn note(
        &mut self,
        now: Now,
        refusal: &Denied,
        (user, context, client): (&str, &'static str, String),
    ) {
        let (reason, object) = refusal.reason();
        let (gateway, gateways) = self.gateway;
        let at_ms = now.wall_ms();
        let object = Blob::new(&object[..object.len().min(ACL_OBJECT_BYTES_MAX)]);
        let mut denial = Denial {
            // Numbers grow with time on all gateways, and differ between them.
            id: (at_ms * gateways + gateway).max(self.last_id + gateways),
            count: 1,
            reason,
            context,
            object,
            user: user.to_owned(),
            client,
            created_ms: at_ms,
            updated_ms: at_ms,
        };
        if let Some(at) = self.entries.iter().rposition(|known| known.is_like(&denial)) {
            let Some(mut known) = self.entries.remove(at) else { return };
            known.join(denial);
            denial = known;
        } else {
            self.last_id = denial.id;
        }
        self.entries.push_back(denial);
        self.set_most(self.most);
    }

    /// Entries, the newest first.
    pub fn newest(&self, most: usize) -> Vec<Denial> {
        self.entries.iter().rev().take(most).cloned().collect()
    }

    /// Forgets all entries.
    pub fn clear(&mut self) {
        self.entries = VecDeque::new();
    }
}

/// Reply of `ACL LOG`, from the entries of all gateways.
pub(in crate::gateway) fn reply(now: Now, denials: Vec<Denial>, most: usize) -> Reply {
    let mut joined: Vec<Denial> = Vec::new();
    for denial in denials {
        match joined.iter_mut().find(|known| known.is_like(&denial)) {
            Some(known) => known.join(denial),
            None => joined.push(denial),
        }
    }
    joined.sort_by_key(|denial| std::cmp::Reverse((denial.updated_ms, denial.id)));
    joined.truncate(most);
    Reply::Array(joined.into_iter().map(|denial| entry(now, denial)).collect())
}

fn entry(now: Now, denial: Denial) -> Reply {
    let number = |n: u64| Reply::Int(i64::try_from(n).unwrap_or(i64::MAX));
    let age_s = now.wall_ms().saturating_sub(denial.created_ms) as f64 / 1000.0;
    let fields = [
        ("count", number(denial.count)),
        ("reason", Reply::bulk(denial.reason)),
        ("context", Reply::bulk(denial.context)),
        ("object", Reply::Bulk(denial.object)),
        ("username", Reply::bulk(denial.user)),
        ("age-seconds", Reply::Double(age_s)),
        ("client-info", Reply::bulk(denial.client)),
        ("entry-id", number(denial.id)),
        ("timestamp-created", number(denial.created_ms)),
        ("timestamp-last-updated", number(denial.updated_ms)),
    ];
    Reply::Map(fields.into_iter().map(|(name, value)| (Reply::bulk(name), value)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(denials: &mut Denials, s: u64, key: &str) {
        let now = Now { wall_us: s * 1_000_000, mono_us: 0 };
        denials.note(now, &Denied::Key(key.into()), ("ann", "toplevel", String::new()));
    }

    #[test]
    fn the_same_refusal_is_counted_for_a_minute() {
        let mut denials = Denials::new(0, 1);
        for (s, key) in [(100, "a"), (101, "b"), (130, "a"), (300, "a")] {
            note(&mut denials, s, key);
        }
        let newest = denials.newest(9);
        let seen: Vec<_> = newest.iter().map(|d| (d.object.clone(), d.count)).collect();
        assert_eq!(seen, [("a".into(), 1), ("a".into(), 2), ("b".into(), 1)]);
        denials.set_most(1);
        assert_eq!(denials.newest(9).len(), 1);
    }

    #[test]
    fn refusals_at_several_workers_are_one() {
        let mut workers = [Denials::new(0, 2), Denials::new(1, 2)];
        workers.iter_mut().for_each(|worker| note(worker, 100, "a"));
        let all = workers.iter().flat_map(|worker| worker.newest(9)).collect();
        let Reply::Array(entries) = reply(Now { wall_us: 0, mono_us: 0 }, all, 10) else {
            panic!("an array")
        };
        let [Reply::Map(fields)] = entries.as_slice() else { panic!("one entry") };
        assert_eq!(fields[0].1, Reply::Int(2));
    }

    #[test]
    fn refusals_have_a_bound() {
        let mut denials = Denials::new(0, 1);
        (0..1_000).for_each(|n| note(&mut denials, 100, &format!("{n}{}", "x".repeat(500))));
        assert_eq!(denials.newest(usize::MAX).len(), ACL_LOG_ENTRIES);
        assert!(denials.newest(1)[0].object.len() <= ACL_OBJECT_BYTES_MAX);
    }
}
