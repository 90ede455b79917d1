//! Scripts that do a task in one message, the same text for Claret and Redis.

use super::tasks::{Task, key};
use crate::load::resp;

/// Tokens of a bucket that refill in a second, and the most that it holds.
const RATE: &str = "1000";
const BURST: &str = "100";
/// Milliseconds after which a lock is free again if it is not released.
const LEASE_MS: &str = "30000";
/// Jobs of a queue.
pub const JOBS: u64 = 10;

const REWRITE: &str = "\
redis.call('SET', KEYS[1], redis.call('GET', KEYS[1]) + ARGV[1])
return 1";

const TAKE: &str = "\
if tonumber(redis.call('GET', KEYS[1])) >= 1 then
  redis.call('INCRBY', KEYS[1], ARGV[1])
  return 1
end
return 0";

const STOCK: &str = "\
local n = redis.call('GET', KEYS[1]) + ARGV[1]
if n < 0 or n > 100 then return 0 end
redis.call('SET', KEYS[1], n)
return 1";

const BUCKET: &str = "\
local rate, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local bucket = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens, at = tonumber(bucket[1]) or burst, tonumber(bucket[2]) or now
tokens = math.min(burst, tokens + math.max(0, now - at) * rate / 1000)
local inside = 0
if tokens >= 1 then
  tokens = tokens - 1
  inside = 1
end
redis.call('HSET', KEYS[1], 'tokens', tokens, 'at', now)
redis.call('PEXPIRE', KEYS[1], math.ceil(2000 * burst / rate))
return inside";

const ACQUIRE: &str = "\
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
return 0";

const RELEASE: &str = "\
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0";

/// The list of active jobs is cut, since no worker finishes any.
const FETCH: &str = "\
local id = redis.call('RPOPLPUSH', KEYS[1], KEYS[2])
if not id then
  redis.call('LPUSH', KEYS[1], ARGV[2])
  return 0
end
local job = ARGV[1] .. id
local data = redis.call('HGET', job, 'data')
redis.call('HSET', job, 'state', 'active')
redis.call('LTRIM', KEYS[2], 0, 99)
return data";

/// The best bid is a hash, as scripts do it: a sorted set would have to be cut after each bid.
const AUCTION: &str = "\
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
local best = tonumber(redis.call('HGET', KEYS[2], 'amount')) or 0
if tonumber(ARGV[1]) > best then
  redis.call('HSET', KEYS[2], 'amount', ARGV[1], 'bidder', ARGV[2])
end
redis.call('INCR', KEYS[3])
return 1";

/// Position of the script that acquires a lock in [`texts`].
pub const OF_ACQUIRE: usize = 0;
/// Position of the script that releases a lock in [`texts`].
pub const OF_RELEASE: usize = 1;

/// Scripts of a task. A task with two has one for each half.
pub fn texts(task: Task) -> &'static [&'static str] {
    match task {
        Task::Rewrite => &[REWRITE],
        Task::Take => &[TAKE],
        Task::Stock => &[STOCK],
        Task::Bucket => &[BUCKET],
        Task::Release => &[ACQUIRE, RELEASE],
        Task::Fetch => &[FETCH],
        Task::Auction => &[AUCTION],
    }
}

/// A call of a script.
#[derive(Clone, Copy, Debug)]
pub struct Call<'c> {
    /// Task that it belongs to.
    pub task: Task,
    /// Name that the server gave to the script.
    pub name: &'c str,
    /// Record to work on.
    pub record: u64,
    /// Number to add.
    pub delta: i64,
    /// Job to put into an empty queue.
    pub job: u64,
    /// Value of a lock that this client holds.
    pub token: &'c str,
}

impl Call<'_> {
    /// Writes the command.
    pub fn put(&self, out: &mut Vec<u8>) {
        let record = self.record;
        match self.task {
            Task::Rewrite | Task::Take | Task::Stock => {
                self.command(&[&key(record)], &[&self.delta.to_string()], out);
            }
            Task::Bucket => self.command(&[&format!("bucket:{record}")], &[RATE, BURST], out),
            Task::Release => {
                self.command(&[&format!("lock:{record}")], &[self.token, LEASE_MS], out)
            }
            Task::Fetch => {
                let [waiting, active, job] = queue(record);
                self.command(&[&waiting, &active], &[&job, &self.job.to_string()], out);
            }
            Task::Auction => {
                let [closed, best, bids] = auction(record);
                let bid = self.job.to_string();
                self.command(&[&closed, &best, &bids], &[&bid, self.token], out);
            }
        }
    }

    fn command(&self, keys: &[&str], args: &[&str], out: &mut Vec<u8>) {
        let count = keys.len().to_string();
        let words = [&["EVALSHA", self.name, &count], keys, args].concat();
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        resp::command(out, &words);
    }
}

/// Keys of a queue: the list of waiting jobs, the list of active jobs, and the beginning of the key
/// of each job.
fn queue(record: u64) -> [String; 3] {
    ["waiting", "active", "job:"].map(|part| format!("{{queue:{record}}}:{part}"))
}

/// Keys of an auction: whether it is closed, the best bid, and the number of bids.
pub fn auction(record: u64) -> [String; 3] {
    ["closed", "best", "bids"].map(|part| format!("{{auction:{record}}}:{part}"))
}

/// Commands that fill a queue.
pub fn fill_queue(record: u64) -> Vec<Vec<u8>> {
    let [waiting, _, job] = queue(record);
    let mut commands = Vec::new();
    for id in (0..JOBS).map(|id| id.to_string()) {
        let job = format!("{job}{id}");
        for words in [
            &["HSET", &job, "data", "{\"to\":\"someone\"}", "state", "waiting"][..],
            &["LPUSH", &waiting, &id],
        ] {
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            let mut command = Vec::new();
            resp::command(&mut command, &words);
            commands.push(command);
        }
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(task: Task) -> String {
        let call = Call { task, name: "sha", record: 3, delta: -1, job: 7, token: "me" };
        let mut out = Vec::new();
        call.put(&mut out);
        let text = String::from_utf8(out).expect("text");
        let words = text.lines().filter(|line| !line.starts_with(['*', '$']));
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn scripts_get_the_keys_and_arguments_of_their_task() {
        assert_eq!(words(Task::Take), "EVALSHA sha 1 stock:3 -1");
        assert_eq!(words(Task::Bucket), "EVALSHA sha 1 bucket:3 1000 100");
        assert_eq!(words(Task::Release), "EVALSHA sha 1 lock:3 me 30000");
        let fetch = "EVALSHA sha 2 {queue:3}:waiting {queue:3}:active {queue:3}:job: 7";
        assert_eq!(words(Task::Fetch), fetch);
    }

    #[test]
    fn a_queue_begins_with_all_its_jobs() {
        let commands = fill_queue(3);
        assert_eq!(commands.len() as u64, 2 * JOBS);
        let last = String::from_utf8_lossy(&commands[commands.len() - 1]).into_owned();
        assert!(last.contains("LPUSH") && last.contains("{queue:3}:waiting"), "{last}");
    }
}
