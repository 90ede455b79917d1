//! `SLOWLOG`: the commands that took longest to answer, of all workers of a machine.

use super::slow::Answered;
use crate::limits::{SLOWLOG_COMMANDS, SLOWLOG_US};
use crate::now::Now;
use adt::{Blob, Reply};
use std::collections::VecDeque;

/// Slow command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowCommand {
    /// Number, which grows with time.
    pub id: u64,
    /// Seconds since 1970.
    pub at_s: u64,
    /// Duration, in microseconds.
    pub us: u64,
    /// Words of the command, cut.
    pub words: Vec<Blob>,
    /// Address of the client.
    pub address: String,
    /// Name of the client.
    pub name: String,
}

/// Slow commands of one gateway, the newest last.
pub struct SlowLog {
    /// Shortest duration of a slow command, in microseconds.
    pub least_us: u64,
    most: usize,
    commands: VecDeque<SlowCommand>,
    /// Number of this gateway, and of all.
    gateway: (u64, u64),
    last_id: u64,
}

impl SlowLog {
    /// Log of the gateway with this number out of so many.
    pub fn new(gateway: u16, gateways: u16) -> Self {
        Self {
            least_us: SLOWLOG_US,
            most: SLOWLOG_COMMANDS,
            commands: VecDeque::new(),
            gateway: (gateway.into(), gateways.max(1).into()),
            last_id: 0,
        }
    }

    /// Sets how many commands are kept at most.
    pub fn set_most(&mut self, most: usize) {
        self.most = most;
        let surplus = self.commands.len().saturating_sub(most);
        self.commands.drain(..surplus);
    }

    /// Notes a command, and forgets the oldest one if there are too many.
    pub fn note(&mut self, now: Now, name: &str, answered: Answered<'_>) {
        let Answered { us, words, address, .. } = answered;
        if self.most == 0 {
            return;
        }
        if self.commands.len() >= self.most {
            self.commands.pop_front();
        }
        // Numbers grow with time on all gateways, and differ between them.
        let (gateway, gateways) = self.gateway;
        let id = (now.wall_us * gateways + gateway).max(self.last_id + gateways);
        self.last_id = id;
        let unknown =
            || vec![Blob::from(name.as_bytes()), Blob::from(&b"... (arguments not kept)"[..])];
        self.commands.push_back(SlowCommand {
            id,
            at_s: now.wall_us / 1_000_000,
            us,
            words: words.unwrap_or_else(unknown),
            address: address.to_owned(),
            name: answered.name.to_owned(),
        });
    }

    /// Number of commands.
    pub fn count(&self) -> usize {
        self.commands.len()
    }

    /// The newest commands, so many at most.
    pub fn newest(&self, most: usize) -> Vec<SlowCommand> {
        self.commands.iter().rev().take(most).cloned().collect()
    }

    /// Forgets all commands.
    pub fn clear(&mut self) {
        self.commands = VecDeque::new();
    }

    /// How many commands are kept at most.
    pub fn most(&self) -> usize {
        self.most
    }
}

/// Reply of `SLOWLOG GET`, from the commands of all gateways.
pub fn reply(mut commands: Vec<SlowCommand>, most: usize) -> Reply {
    commands.sort_by_key(|command| std::cmp::Reverse(command.id));
    commands.truncate(most);
    let number = |n: u64| Reply::Int(i64::try_from(n).unwrap_or(i64::MAX));
    let entry = |command: SlowCommand| {
        let words = command.words.into_iter().map(Reply::Bulk).collect();
        Reply::Array(vec![
            number(command.id),
            number(command.at_s),
            number(command.us),
            Reply::Array(words),
            Reply::bulk(command.address),
            Reply::bulk(command.name),
        ])
    };
    Reply::Array(commands.into_iter().map(entry).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now(s: u64) -> Now {
        Now { wall_us: s * 1_000_000, mono_us: s * 1_000_000 }
    }

    fn answered(us: u64) -> Answered<'static> {
        Answered { position: 0, us, words: None, address: "1.2.3.4:5", name: "n" }
    }

    #[test]
    fn the_oldest_commands_are_forgotten() {
        let mut log = SlowLog::new(1, 2);
        log.set_most(3);
        for us in 1..=5 {
            log.note(now(us), "get", answered(us));
        }
        let kept: Vec<u64> = log.newest(usize::MAX).iter().map(|command| command.us).collect();
        assert_eq!(kept, [5, 4, 3]);
        assert_eq!(log.newest(1).len(), 1);
        log.set_most(1);
        assert_eq!((log.count(), log.newest(9)[0].us), (1, 5));
        log.set_most(0);
        log.note(now(9), "get", answered(9));
        assert_eq!(log.count(), 0);
    }

    #[test]
    fn numbers_grow_and_differ_between_workers_whatever_the_clock_does() {
        let mut logs = [SlowLog::new(0, 2), SlowLog::new(1, 2)];
        for s in [5, 5, 3, 9] {
            logs.iter_mut().for_each(|log| log.note(now(s), "get", answered(1)));
        }
        let ids = |log: &SlowLog| log.newest(9).iter().map(|c| c.id).collect::<Vec<_>>();
        for log in &logs {
            assert!(ids(log).windows(2).all(|pair| pair[0] > pair[1]));
        }
        assert!(ids(&logs[0]).iter().all(|id| !ids(&logs[1]).contains(id)));
    }
}
