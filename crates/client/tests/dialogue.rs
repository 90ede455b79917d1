//! Dialogues of the client with a scripted server.

use client::{
    Client, ClientReply, Command, Counter, Error, LockOptions, Options, RetryPolicy, Set, TxOptions,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// One step of the script of a connection: the expected words and the answer.
#[derive(Clone, Copy)]
enum Act {
    /// Expects commands in one go and answers.
    Answer(&'static [&'static str], &'static str),
    /// Expects commands and closes the connection.
    Vanish(&'static [&'static str]),
}

/// Serves connections after the first (the shared one), each with the next script; returns the URL
/// and the list of failed expectations.
async fn reciter(scripts: Vec<Vec<Act>>) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("redis://{}", listener.local_addr().expect("an address"));
    let wrong = Arc::new(Mutex::new(Vec::new()));
    let failures = Arc::clone(&wrong);
    tokio::spawn(async move {
        let mut held = vec![listener.accept().await.expect("the shared connection").0];
        for script in scripts {
            let (stream, _) = listener.accept().await.expect("a connection");
            held.extend(recite(stream, &script, &failures).await);
        }
        std::future::pending::<()>().await;
    });
    (url, wrong)
}

async fn recite(
    mut stream: TcpStream,
    script: &[Act],
    failures: &Mutex<Vec<String>>,
) -> Option<TcpStream> {
    for act in script {
        let (Act::Answer(expected, _) | Act::Vanish(expected)) = act;
        let mut bytes = Vec::new();
        let mut said: Vec<String> = Vec::new();
        while said.len() < expected.len() {
            if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
                break;
            }
            said = spoken(&bytes);
        }
        if said != *expected {
            failures
                .lock()
                .expect("no panic")
                .push(format!("expected {expected:?}, heard {said:?}"));
        }
        match act {
            Act::Answer(_, answer) => {
                stream.write_all(answer.as_bytes()).await.expect("the client listens");
            }
            Act::Vanish(_) => return None,
        }
    }
    Some(stream)
}

/// The complete commands as words, without the client's random name.
fn spoken(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let whole = text.rfind("\r\n").map_or("", |end| &text[..end]);
    let mut lines = whole.split("\r\n");
    let mut commands = Vec::new();
    while let Some(count) = lines.next().and_then(|line| line.strip_prefix('*')) {
        let count: usize = count.parse().expect("a number of words");
        let mut words: Vec<String> = Vec::new();
        for _ in 0..count {
            let (Some(_), Some(word)) = (lines.next(), lines.next()) else { break };
            let random = word.len() > 16 && word.contains('-');
            let name = word.rsplit('-').next().filter(|_| random).map(|slot| ["me", slot].concat());
            words.push(name.unwrap_or_else(|| word.to_owned()));
        }
        if words.len() == count {
            commands.push(words.join(" "));
        }
    }
    commands
}

async fn client(url: &str) -> Client {
    let retry = RetryPolicy { first_pause: Duration::from_micros(10), ..RetryPolicy::default() };
    let options = Options { retry, transactions_max: 1, ..Options::default() };
    Client::connect_with(url, options).await.expect("the server listens")
}

/// Adds to a counter, reads the size of a set and adds a member.
async fn size_and_add(client: &Client) -> client::Result<u64> {
    let (set, counter) = (Set::<String>::new("s"), Counter::new("c"));
    client
        .run(|mut tx| {
            let (set, counter) = (set.clone(), counter.clone());
            async move {
                counter.add(&mut tx, 1).await?;
                let len = set.len(&mut tx).await?;
                set.add(&mut tx, "x").await?;
                Ok(len)
            }
        })
        .await
}

const FIRST: &[&str] =
    &["CLIENT REQUEST me0 1", "TXN BEGIN BLIND STRICT", "COUNTER.ADD c 1", "SCARD s"];
const LAST: &[&str] = &["SADD s x", "TXN COMMIT"];

#[tokio::test]
async fn a_transaction_is_one_round_trip_per_awaited_operation_and_one_for_the_commit() {
    let script = vec![
        Act::Answer(FIRST, "+OK\r\n+OK\r\n+QUEUED\r\n:7\r\n"),
        Act::Answer(LAST, "+QUEUED\r\n*2\r\n:1\r\n:1\r\n"),
    ];
    let (url, wrong) = reciter(vec![script]).await;
    assert_eq!(size_and_add(&client(&url).await).await, Ok(7));
    assert_eq!(*wrong.lock().expect("no panic"), Vec::<String>::new());
}

#[tokio::test]
async fn an_aborted_transaction_is_run_again_on_the_same_connection() {
    const AGAIN: &[&str] = &[
        "TXN ABORT",
        "CLIENT REQUEST me0 1",
        "TXN BEGIN BLIND STRICT",
        "COUNTER.ADD c 1",
        "SCARD s",
    ];
    let script = vec![
        Act::Answer(FIRST, "+OK\r\n+OK\r\n+QUEUED\r\n-TXNABORT try again\r\n"),
        Act::Answer(AGAIN, "+OK\r\n+OK\r\n+OK\r\n+QUEUED\r\n:8\r\n"),
        Act::Answer(LAST, "+QUEUED\r\n*2\r\n:1\r\n:1\r\n"),
    ];
    let (url, wrong) = reciter(vec![script]).await;
    assert_eq!(size_and_add(&client(&url).await).await, Ok(8));
    assert_eq!(*wrong.lock().expect("no panic"), Vec::<String>::new());
}

/// Loses the reply of a commit; the server's answer about the request number decides.
async fn lost_commit(answer: &'static str, then: Vec<Act>) -> (client::Result<u64>, Vec<String>) {
    const ASK: &[&str] = &["TXN RESOLVE me0 1"];
    let broken = vec![Act::Answer(FIRST, "+OK\r\n+OK\r\n+QUEUED\r\n:7\r\n"), Act::Vanish(LAST)];
    let mut second = vec![Act::Answer(ASK, answer)];
    second.extend(then);
    let (url, wrong) = reciter(vec![broken, second]).await;
    let result = size_and_add(&client(&url).await).await;
    let wrong = wrong.lock().expect("no panic").clone();
    (result, wrong)
}

#[tokio::test]
async fn a_lost_commit_that_took_effect_is_not_repeated() {
    assert_eq!(lost_commit(":1\r\n", Vec::new()).await, (Ok(7), Vec::new()));
}

#[tokio::test]
async fn a_lost_commit_that_took_no_effect_is_repeated_under_a_new_number() {
    const NEW: &[&str] =
        &["CLIENT REQUEST me0 2", "TXN BEGIN BLIND STRICT", "COUNTER.ADD c 1", "SCARD s"];
    let then = vec![
        Act::Answer(NEW, "+OK\r\n+OK\r\n+QUEUED\r\n:9\r\n"),
        Act::Answer(LAST, "+QUEUED\r\n*2\r\n:1\r\n:1\r\n"),
    ];
    assert_eq!(lost_commit(":0\r\n", then).await, (Ok(9), Vec::new()));
}

#[tokio::test]
async fn values_of_writes_cost_the_promise_not_to_look() {
    const VALUE: &[&str] = &["CLIENT REQUEST me0 1", "TXN BEGIN STRICT", "INCRBY n 2"];
    const COMMIT: &[&str] = &["TXN COMMIT"];
    let script = vec![Act::Answer(VALUE, "+OK\r\n+OK\r\n:12\r\n"), Act::Answer(COMMIT, "*0\r\n")];
    let (url, wrong) = reciter(vec![script]).await;
    let client = client(&url).await;
    let sum = client.run(|mut tx| async move { tx.incr_by("n", 2).await }).await;
    assert_eq!(sum, Ok(12));
    assert_eq!(*wrong.lock().expect("no panic"), Vec::<String>::new());
}

#[tokio::test]
async fn reading_transactions_do_not_wait_for_their_commit() {
    const READ: &[&str] = &["TXN BEGIN READONLY", "GET k"];
    const NEXT: &[&str] = &["TXN COMMIT", "TXN BEGIN READONLY", "GET k"];
    let script = vec![
        Act::Answer(READ, "+OK\r\n$1\r\na\r\n"),
        Act::Answer(NEXT, "*0\r\n+OK\r\n$1\r\nb\r\n"),
    ];
    let (url, wrong) = reciter(vec![script]).await;
    let client = client(&url).await;
    for expected in ["a", "b"] {
        let value = client.read_only(|mut tx| async move { tx.get::<String>("k").await }).await;
        assert_eq!(value, Ok(Some(expected.to_owned())));
    }
    let refused = client.read_only(|mut tx| async move { tx.set("k", 1).await }).await;
    assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    assert_eq!(*wrong.lock().expect("no panic"), Vec::<String>::new());
}

#[tokio::test]
async fn a_refused_write_beside_a_commit_is_reported() {
    const ALL: &[&str] = &["TXN BEGIN BLIND", "SET k", "TXN COMMIT"];
    let script = vec![Act::Answer(ALL, "+OK\r\n-ERR wrong number of arguments\r\n*0\r\n")];
    let (url, _) = reciter(vec![script]).await;
    let client = client(&url).await;
    let mut tx = client.begin(TxOptions::default()).await.expect("a slot");
    tx.tell(Command::new("SET").arg("k")).await.expect("it is queued");
    let result = tx.commit().await;
    assert!(matches!(&result, Err(error @ Error::WriteRefused(_)) if error.maybe_committed()));
}

#[tokio::test]
async fn a_blind_transaction_that_was_discarded_says_why() {
    const ALL: &[&str] = &["TXN BEGIN BLIND", "SET k", "TXN COMMIT"];
    let answer = "+OK\r\n-ERR wrong number of arguments\r\n-EXECABORT Transaction discarded\r\n";
    let (url, _) = reciter(vec![vec![Act::Answer(ALL, answer)]]).await;
    let client = client(&url).await;
    let mut tx = client.begin(TxOptions::default()).await.expect("a slot");
    tx.tell(Command::new("SET").arg("k")).await.expect("it is queued");
    let result = tx.commit().await;
    assert_eq!(result, Err(Error::Refused("ERR wrong number of arguments".into())));
}

#[tokio::test]
async fn a_run_is_undone_as_a_whole_and_how_others_wait_can_be_said() {
    const ALL: &[&str] =
        &["CLIENT REQUEST me0 1", "TXN BEGIN BLIND STRICT", "SET k 1", "TXN COMMIT"];
    const BEGIN: &str = "TXN BEGIN BLIND IDLE 1500 TIMEOUT 0";
    const LENIENT: &[&str] = &["CLIENT REQUEST me0 2", BEGIN, "SET k 1", "TXN COMMIT"];
    let undone = "+OK\r\n+OK\r\n+QUEUED\r\n-EXECABORT Transaction discarded: WRONGTYPE\r\n";
    let partly = "+OK\r\n+OK\r\n+QUEUED\r\n*1\r\n-WRONGTYPE no\r\n";
    let script = vec![Act::Answer(ALL, undone), Act::Answer(LENIENT, partly)];
    let (url, wrong) = reciter(vec![script]).await;
    let client = client(&url).await;
    let lenient = TxOptions::default().strict(false).idle_timeout(Duration::from_millis(1500));
    let ways = [TxOptions::default(), lenient.timeout(Duration::ZERO)];
    let mut results = Vec::new();
    for way in ways {
        results.push(client.run_with(way, |mut tx| async move { tx.set("k", 1).await }).await);
    }
    assert!(matches!(&results[0], Err(Error::Refused(line)) if line.contains("WRONGTYPE")));
    assert!(matches!(&results[1], Err(Error::WriteRefused(_))), "{results:?}");
    assert_eq!(*wrong.lock().expect("no panic"), Vec::<String>::new());
}

#[tokio::test]
async fn a_batch_whose_reply_is_lost_is_sent_again_under_its_number() {
    const BATCH: &[&str] = &["CLIENT REQUEST me0 1", "MULTI", "INCRBY n 1", "EXEC"];
    let again = Act::Answer(BATCH, "+OK\r\n+OK\r\n+QUEUED\r\n*1\r\n:5\r\n");
    let (url, wrong) = reciter(vec![vec![Act::Vanish(BATCH)], vec![again]]).await;
    let client = client(&url).await;
    let replies = client.batch().then(Command::new("INCRBY").arg("n").arg(1)).commit().await;
    assert_eq!(replies, Ok(vec![Ok(ClientReply::Int(5))]));
    assert_eq!(*wrong.lock().expect("no panic"), Vec::<String>::new());
}

#[tokio::test]
async fn a_lock_request_with_next_says_so_and_waits_at_least_briefly() {
    const ASK: &[&str] =
        &["CLIENT REQUEST mew0 1", "LOCK.ACQUIRE lock LEASE 30000 OWNER me TIMEOUT 1 NEXT"];
    const CAMPAIGN: &[&str] =
        &["CLIENT REQUEST mew0 2", "ELECTION.CAMPAIGN jobs a:1 LEASE 30000 OWNER me TIMEOUT 1"];
    let script = vec![Act::Answer(ASK, "+OK\r\n:7\r\n"), Act::Answer(CAMPAIGN, "+OK\r\n$-1\r\n")];
    let (url, wrong) = reciter(vec![script]).await;
    let client = client(&url).await;
    let timeout = Some(Duration::ZERO);
    // A request that does not wait cannot be part of a deadlock cycle, whatever its options.
    let options = LockOptions { owner: "me".to_owned(), timeout, next: true, ..Default::default() };
    let detecting = LockOptions { detect: true, ..options.clone() };
    let lock = client.lock("lock", detecting).await.expect("granted");
    assert_eq!(lock.token(), 7);
    let elected = client.campaign("jobs", "a:1", options).await.err();
    assert_eq!(elected, Some(Error::NotAcquired));
    // The server is not asked, because it would not answer for such a lock.
    let mut tx = client.begin(TxOptions::default()).await.expect("it says nothing yet");
    let refused = lock.require_in(&mut tx).await;
    assert!(matches!(&refused, Err(Error::Refused(line)) if line.contains("fence")), "{refused:?}");
    assert_eq!(*wrong.lock().expect("no panic"), Vec::<String>::new());
}
