//! The programs for PostgreSQL, as clients of the same event loop.

use super::answer::Answer;
use super::tasks::{CAPACITY, Task};
use crate::load::driver::{Fleet, Turn};
use crate::load::postgres::{answer, answer_len, execute, prepare, startup, sync};
use crate::load::random::{Rng, Zipf};
use crate::load::recorder::Recorder;
use crate::load::resp::{Frame, NoReply};
use crate::load::threads::Recorded;
use crate::servers::postgres::{Session, USER};
use crate::servers::process::Server;
use std::io;

/// Errors that only say that the transaction must be run again: it could not be serialized, or was
/// in a deadlock.
const AGAIN: [&str; 2] = ["40001", "40P01"];

/// Prepared statements by name. Tasks that are scripts have none.
fn statements(task: Task) -> Vec<(&'static str, String)> {
    match task {
        Task::Rewrite => vec![
            ("begin", "BEGIN".into()),
            ("read", "SELECT n FROM stock WHERE id = $1 FOR UPDATE".into()),
            ("write", "UPDATE stock SET n = $2 WHERE id = $1".into()),
            ("commit", "COMMIT".into()),
            ("rollback", "ROLLBACK".into()),
        ],
        Task::Take => {
            vec![("add", "UPDATE stock SET n = n + $2 WHERE id = $1 AND n >= 1".into())]
        }
        Task::Stock => vec![(
            "add",
            format!(
                "UPDATE stock SET n = n + $2 WHERE id = $1 AND n + $2 BETWEEN 0 AND {CAPACITY}"
            ),
        )],
        Task::Auction => vec![(
            "add",
            "UPDATE auction SET bids = bids + 1, best = greatest(best, $2), \
             bidder = CASE WHEN $2 > best THEN $3 ELSE bidder END WHERE id = $1 AND NOT closed"
                .into(),
        )],
        Task::Bucket | Task::Release | Task::Fetch => Vec::new(),
    }
}

/// Creates the records anew.
///
/// # Errors
/// The server fails.
pub fn fill(server: &Server, task: Task, records: u32) -> io::Result<()> {
    let mut session = Session::connect(server.address())?;
    let (last, n) = (i64::from(records) - 1, task.initial());
    let (name, columns, values) = match task {
        Task::Auction => (
            "auction",
            "closed boolean NOT NULL, best bigint NOT NULL, bidder bigint, bids bigint NOT NULL",
            "false, 0, NULL, 0".to_owned(),
        ),
        _ => ("stock", "n bigint NOT NULL", n.to_string()),
    };
    session.query(&format!("DROP TABLE IF EXISTS {name}"))?;
    session.query(&format!("CREATE TABLE {name} (id bigint PRIMARY KEY, {columns})"))?;
    let rows = format!("SELECT id, {values} FROM generate_series(0, {last}) id");
    session.query(&format!("INSERT INTO {name} {rows}"))?;
    session.query(&format!("VACUUM ANALYZE {name}"))?;
    Ok(())
}

/// Bids in all auctions.
///
/// # Errors
/// The server fails.
pub fn read(server: &Server) -> io::Result<Answer> {
    let mut session = Session::connect(server.address())?;
    let mut number = |sql| {
        let found = session.query(sql)?.and_then(|number| u64::try_from(number).ok());
        found.ok_or_else(|| io::Error::other(format!("no number is the answer to {sql}")))
    };
    let bids = number("SELECT sum(bids) FROM auction")?;
    Ok(Answer { bids, best: number("SELECT max(best) FROM auction")? })
}

/// Position of a client in its program: what it does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Login,
    Prepare,
    Begin,
    Write,
    Commit,
}

#[derive(Debug)]
struct Client {
    rng: Rng,
    next: Next,
    record: i64,
    delta: i64,
    /// Amount of a bid.
    bid: i64,
    /// Number of the client.
    number: i64,
    /// Number that was read.
    read: i64,
    started_ns: u64,
    /// Whether a transaction is under way.
    busy: bool,
    aborted: bool,
}

/// Clients of one thread.
pub struct Clients<'z> {
    task: Task,
    popularity: &'z Zipf,
    clients: Vec<Client>,
    recorder: Recorder,
    /// Bids that were taken.
    answer: Answer,
}

impl<'z> Clients<'z> {
    /// Creates clients that have no session yet.
    pub fn new(task: Task, popularity: &'z Zipf, clients: usize, seed: u64) -> Self {
        let client = |number| Client {
            rng: Rng::new(seed.wrapping_mul(0x9e37_79b9).wrapping_add(number as u64)),
            next: Next::Login,
            record: 0,
            delta: 0,
            bid: 0,
            number: number as i64,
            read: 0,
            started_ns: 0,
            busy: false,
            aborted: false,
        };
        let clients = (0..clients).map(client).collect();
        let (recorder, answer) = (Recorder::new(1, u64::MAX), Answer::default());
        Self { task, popularity, clients, recorder, answer }
    }

    /// Bids that were taken.
    pub fn answer(&self) -> Answer {
        self.answer
    }
}

impl Client {
    /// Sends the beginning of a transaction, which it has chosen already if it was aborted.
    fn begin(&mut self, task: Task, out: &mut Vec<u8>) {
        if task == Task::Rewrite {
            if std::mem::take(&mut self.aborted) {
                execute(out, "rollback", &[]);
            }
            execute(out, "begin", &[]);
            execute(out, "read", &[self.record]);
            self.next = Next::Write;
        } else {
            self.aborted = false;
            match task {
                Task::Auction => execute(out, "add", &[self.record, self.bid, self.number]),
                _ => execute(out, "add", &[self.record, self.delta]),
            }
            self.next = Next::Begin;
        }
    }
}

impl Fleet for Clients<'_> {
    fn frame_len(&self, bytes: &[u8]) -> Result<Option<usize>, NoReply> {
        answer_len(bytes)
    }

    fn reply(&mut self, client: usize, frame: Frame<'_>) -> Result<(), String> {
        let client = &mut self.clients[client];
        let answer = answer(frame.0);
        match answer.error {
            Some((code, _)) if AGAIN.contains(&code.as_str()) => client.aborted = true,
            Some((code, text)) => return Err(format!("PostgreSQL answered {code} {text}")),
            None => client.read = answer.number.unwrap_or(client.read),
        }
        Ok(())
    }

    fn turn(&mut self, client: usize, now_ns: u64, out: &mut Vec<u8>) -> Turn {
        let client = &mut self.clients[client];
        if client.aborted {
            self.recorder.abort(0, now_ns);
            client.next = Next::Begin;
        }
        match client.next {
            Next::Login => {
                startup(out, USER);
                client.next = Next::Prepare;
                return Turn { replies: 1, hold_ns: 0 };
            }
            Next::Prepare => {
                for (name, sql) in statements(self.task) {
                    prepare(out, name, &sql);
                }
                client.next = Next::Begin;
            }
            Next::Begin => {
                if !client.aborted {
                    if std::mem::replace(&mut client.busy, true) {
                        self.recorder.commit(0, client.started_ns, now_ns);
                        if self.task == Task::Auction {
                            self.answer.bid(client.bid as u64);
                        }
                    }
                    client.started_ns = now_ns;
                    client.record = self.popularity.draw(&mut client.rng) as i64;
                    client.delta = self.task.delta(&mut client.rng);
                    client.bid = client.rng.below(self.task.jobs()) as i64;
                }
                client.begin(self.task, out);
            }
            Next::Write => {
                execute(out, "write", &[client.record, client.read + client.delta]);
                client.next = Next::Commit;
            }
            Next::Commit => {
                execute(out, "commit", &[]);
                client.next = Next::Begin;
            }
        }
        sync(out);
        Turn { replies: 1, hold_ns: 0 }
    }
}

impl Recorded for Clients<'_> {
    fn record(&mut self, recorder: Recorder) -> Recorder {
        std::mem::replace(&mut self.recorder, recorder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READY: &[u8] = b"Z\0\0\0\x05I";

    /// Statements that a client executes in its next turn.
    fn next(clients: &mut Clients<'_>, reply: &[u8], now_ns: u64) -> Vec<String> {
        clients.reply(0, Frame(reply)).expect("no error");
        let mut out = Vec::new();
        clients.turn(0, now_ns, &mut out);
        let words = String::from_utf8_lossy(&out).into_owned();
        let names = ["begin", "read", "write", "commit", "rollback", "add"];
        let mut found: Vec<_> = names
            .iter()
            .filter_map(|name| Some((words.find(&format!("\0{name}\0"))?, *name)))
            .collect();
        found.sort_unstable();
        found.into_iter().map(|(_, name)| name.to_owned()).collect()
    }

    fn logged_in(task: Task, zipf: &Zipf) -> Clients<'_> {
        let mut clients = Clients::new(task, zipf, 1, 1);
        clients.turn(0, 0, &mut Vec::new());
        clients.turn(0, 0, &mut Vec::new());
        clients.record(Recorder::new(1, 0));
        clients
    }

    #[test]
    fn a_record_is_locked_before_it_is_written() {
        let zipf = Zipf::new(1, 0.0);
        let mut clients = logged_in(Task::Rewrite, &zipf);
        assert_eq!(next(&mut clients, READY, 1), ["begin", "read"]);
        let row = [b"D\0\0\0\x0c\0\x01\0\0\0\x0242", READY].concat();
        assert_eq!(next(&mut clients, &row, 2), ["write"]);
        assert_eq!(clients.clients[0].read, 42);
        assert_eq!(next(&mut clients, READY, 3), ["commit"]);
        assert_eq!(clients.recorder.commits(), 0);
        assert_eq!(next(&mut clients, READY, 4), ["begin", "read"]);
        assert_eq!((clients.recorder.commits(), clients.recorder.aborts()), (1, 0));
    }

    #[test]
    fn an_aborted_transaction_begins_again() {
        let zipf = Zipf::new(1, 0.0);
        let mut clients = logged_in(Task::Rewrite, &zipf);
        next(&mut clients, READY, 1);
        let mut deadlock = b"E\0\0\0\x00C40P01\0Mdeadlock\0\0".to_vec();
        deadlock[4] = (deadlock.len() - 1) as u8;
        deadlock.extend_from_slice(READY);
        assert_eq!(next(&mut clients, &deadlock, 2), ["rollback", "begin", "read"]);
        assert_eq!((clients.recorder.commits(), clients.recorder.aborts()), (0, 1));
        assert_eq!(next(&mut clients, READY, 3), ["write"]);
    }

    #[test]
    fn a_guarded_addition_is_one_statement() {
        let zipf = Zipf::new(1, 0.0);
        let mut clients = logged_in(Task::Take, &zipf);
        assert_eq!(next(&mut clients, READY, 1), ["add"]);
        assert_eq!(next(&mut clients, READY, 2), ["add"]);
        assert_eq!(clients.recorder.commits(), 1);
        let error = [&b"E\0\0\0\x0cC42P01\0\0"[..], READY].concat();
        assert!(clients.reply(0, Frame(&error)).expect_err("no table").contains("42P01"));
    }
}
