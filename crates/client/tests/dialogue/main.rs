//! Dialogues of the client with a scripted server.

mod caches;

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
    /// Expects commands in one go and answers; an empty answer is none.
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
        let (mut shared, _) = listener.accept().await.expect("the shared connection");
        greet(&mut shared, &failures).await;
        let mut held = vec![shared];
        for script in scripts {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            greet(&mut stream, &failures).await;
            held.extend(recite(stream, &script, &failures).await);
        }
        std::future::pending::<()>().await;
    });
    (url, wrong)
}

/// Answers the first command of a connection.
async fn greet(stream: &mut TcpStream, failures: &Mutex<Vec<String>>) {
    hear(stream, &["HELLO 3"], failures).await;
    stream.write_all(b"%0\r\n").await.expect("the client listens");
}

/// Reads as many commands as are expected, and notes if they are others.
async fn hear(stream: &mut TcpStream, expected: &[&str], failures: &Mutex<Vec<String>>) {
    let mut bytes = Vec::new();
    let mut said: Vec<String> = Vec::new();
    while said.len() < expected.len() {
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            break;
        }
        said = spoken(&bytes);
    }
    if said != *expected {
        let failure = format!("expected {expected:?}, heard {said:?}");
        failures.lock().expect("no panic").push(failure);
    }
}

async fn recite(
    mut stream: TcpStream,
    script: &[Act],
    failures: &Mutex<Vec<String>>,
) -> Option<TcpStream> {
    for act in script {
        let (Act::Answer(expected, _) | Act::Vanish(expected)) = act;
        hear(&mut stream, expected, failures).await;
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

fn options() -> Options {
    let retry = RetryPolicy { first_pause: Duration::from_micros(10), ..RetryPolicy::default() };
    Options { retry, transactions_max: 1, ..Options::default() }
}

async fn client(url: &str) -> Client {
    Client::connect_with(url, options()).await.expect("the server listens")
}

/// A client that waits for replies for a tenth of a second.
async fn impatient(url: &str) -> Client {
    let options = Options { reply_timeout: Some(Duration::from_millis(100)), ..options() };
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
    assert!(matches!(&result, Err(error @ Error::WriteRefused(_)) if !error.maybe_committed()));
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
    assert_eq!(result, Err(Error::Undone("ERR wrong number of arguments".into())));
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
    assert!(matches!(&results[0], Err(Error::Undone(line)) if line.contains("WRONGTYPE")));
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
async fn a_lost_batch_that_a_closed_client_cannot_send_again_is_unknown() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("redis://{}", listener.local_addr().expect("an address"));
    let client = Client::new(&url, Options::default()).expect("a URL");
    let wrong = Mutex::default();
    let vanish = async {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        greet(&mut stream, &wrong).await;
        stream.readable().await.expect("the batch");
        client.close().await;
    };
    let batch = client.batch().then(Command::new("INCR").arg("n"));
    let (replies, ()) = tokio::join!(batch.commit(), vanish);
    assert!(matches!(replies, Err(Error::CommitUnknown(_))), "{replies:?}");
    assert_eq!(*wrong.lock().expect("no panic"), Vec::<String>::new());
}

#[tokio::test]
async fn a_batch_takes_effect_only_if_its_guards_hold() {
    const EXEC: &str = "EXEC IFEQ x 5 IFNE y 6 XX a NX b";
    const GUARDED: &[&str] = &["CLIENT REQUEST me0 1", "MULTI", "INCRBY n 1", EXEC];
    let no = Act::Answer(GUARDED, "+OK\r\n+OK\r\n+QUEUED\r\n_\r\n");
    let (url, wrong) = reciter(vec![vec![no]]).await;
    let client = client(&url).await;
    let batch = client.batch().then(Command::new("INCRBY").arg("n").arg(1));
    let batch = batch.if_equal("x", 5).if_not_equal("y", 6).if_exists("a").if_absent("b");
    assert_eq!(batch.commit().await, Err(Error::Guard));
    assert_eq!(*wrong.lock().expect("no panic"), Vec::<String>::new());
}

/// Adds to a number under a text, and returns the deferred reply.
async fn add_once(client: &Client, text: &str) -> client::Result<client::Deferred<i64>> {
    let add = || Command::new("INCRBY").arg("n").arg(1);
    let options = TxOptions::default().once(text);
    client.run_with(options, |mut tx| async move { tx.defer(add()).await }).await
}

const FIRST_ONCE: &[&str] =
    &["CLIENT REQUEST once:order-7 1", "TXN BEGIN BLIND STRICT", "INCRBY n 1", "TXN COMMIT"];
const ANSWERED: &str = "+OK\r\n+OK\r\n+QUEUED\r\n*1\r\n:5\r\n";

#[tokio::test]
async fn a_lost_commit_under_a_text_is_sent_again_under_its_number() {
    let again = Act::Answer(FIRST_ONCE, ANSWERED);
    let (url, wrong) = reciter(vec![vec![Act::Vanish(FIRST_ONCE)], vec![again]]).await;
    let deferred = add_once(&client(&url).await, "order-7").await.expect("it commits");
    assert_eq!(deferred.value(), Ok(5));
    assert_eq!(*wrong.lock().expect("no panic"), Vec::<String>::new());
}

#[tokio::test]
async fn a_number_of_a_text_that_is_void_is_followed_by_the_next_one() {
    const NEXT: &[&str] =
        &["CLIENT REQUEST once:order-7 2", "TXN BEGIN BLIND STRICT", "INCRBY n 1", "TXN COMMIT"];
    const VOID: &str = "+OK\r\n+OK\r\n+QUEUED\r\n-VOIDED it was asked for\r\n";
    let script = vec![Act::Answer(FIRST_ONCE, VOID), Act::Answer(NEXT, ANSWERED)];
    let (url, wrong) = reciter(vec![script]).await;
    let deferred = add_once(&client(&url).await, "order-7").await.expect("it commits");
    assert_eq!(deferred.value(), Ok(5));
    assert_eq!(*wrong.lock().expect("no panic"), Vec::<String>::new());
}

#[tokio::test]
async fn a_batch_under_a_text_goes_on_with_the_next_number() {
    const FIRST: &[&str] = &["CLIENT REQUEST once:order-7 1", "MULTI", "INCRBY n 1", "EXEC"];
    const NEXT: &[&str] = &["CLIENT REQUEST once:order-7 2", "MULTI", "INCRBY n 1", "EXEC"];
    const VOID: &str = "+OK\r\n+OK\r\n+QUEUED\r\n-VOIDED it was asked for\r\n";
    let script = vec![Act::Answer(FIRST, VOID), Act::Answer(NEXT, ANSWERED)];
    let (url, wrong) = reciter(vec![script]).await;
    let client = client(&url).await;
    let add = Command::new("INCRBY").arg("n").arg(1);
    let sum = client.batch().then(add.clone()).once("order-7").commit_last().await;
    assert_eq!(sum, Ok(5));
    let refused = client.batch().then(add).once("two words").commit().await;
    assert!(matches!(refused, Err(Error::Order(_))), "{refused:?}");
    assert_eq!(*wrong.lock().expect("no panic"), Vec::<String>::new());
}

#[tokio::test]
async fn a_repeated_text_says_that_its_replies_are_lost() {
    const DONE: &str = "+OK\r\n+OK\r\n+QUEUED\r\n-REPEATED it took effect before\r\n";
    let (url, wrong) = reciter(vec![vec![Act::Answer(FIRST_ONCE, DONE)]]).await;
    let client = client(&url).await;
    assert_eq!(add_once(&client, "order-7").await.err(), Some(Error::ReplyLost));
    let longest = "x".repeat(59);
    for wrong in ["", "two words", "line\n", &[longest.as_str(), "x"].concat()] {
        let refused = add_once(&client, wrong).await.err();
        assert!(matches!(refused, Some(Error::Order(_))), "{wrong:?}: {refused:?}");
    }
    let reading = TxOptions::default().readonly().once(longest.as_str());
    let refused = client.run_with(reading, |_| async { Ok(()) }).await;
    assert!(matches!(refused, Err(Error::Order(_))), "{refused:?}");
    assert_eq!(*wrong.lock().expect("no panic"), Vec::<String>::new());
}

#[tokio::test]
async fn a_deferred_reply_is_known_after_the_commit_only() {
    const ALL: &[&str] = &["TXN BEGIN", "INCRBY n 1", "GET x"];
    let answered = "+OK\r\n:5\r\n$1\r\n7\r\n";
    const COMMIT: &[&str] = &["TXN COMMIT"];
    let script = vec![Act::Answer(ALL, answered), Act::Answer(COMMIT, "*0\r\n")];
    let (url, wrong) = reciter(vec![script]).await;
    let client = client(&url).await;
    let mut tx = client.begin(TxOptions::default().returning()).await.expect("a slot");
    let sum = tx.defer::<i64>(Command::new("INCRBY").arg("n").arg(1)).await.expect("it is queued");
    assert!(matches!(sum.value(), Err(Error::Order(_))), "{sum:?}");
    assert_eq!(tx.get("x").await, Ok(Some(7)));
    assert!(matches!(sum.value(), Err(Error::Order(_))), "{sum:?}");
    assert_eq!(tx.commit().await, Ok(()));
    assert_eq!(sum.value(), Ok(5));
    assert_eq!(*wrong.lock().expect("no panic"), Vec::<String>::new());
}

#[tokio::test]
async fn a_transaction_ends_when_its_caller_stops_waiting() {
    const WAITS: &[&str] = &["TXN BEGIN BLIND", "GET x"];
    let (url, wrong) = reciter(vec![vec![Act::Answer(WAITS, "+OK\r\n")], Vec::new()]).await;
    let client = client(&url).await;
    let mut tx = client.begin(TxOptions::default()).await.expect("a slot");
    let read = tokio::time::timeout(Duration::from_millis(100), tx.get::<String>("x")).await;
    assert!(read.is_err(), "{read:?}");
    // What follows must not take effect outside of the transaction.
    assert_eq!(tx.set("x", 1).await, Err(Error::Ended));
    assert_eq!(tx.commit().await, Err(Error::Ended));
    assert_eq!(*wrong.lock().expect("no panic"), Vec::<String>::new());
}

#[tokio::test]
async fn a_refused_beginning_is_repeated_only_if_no_write_was_taken_singly() {
    const ALL: &[&str] =
        &["CLIENT REQUEST me0 1", "TXN BEGIN BLIND STRICT", "SET x 1", "TXN COMMIT"];
    const BUSY: &str = "+OK\r\n-BUSY wait\r\n-BUSY wait\r\n-BUSY wait\r\n";
    const SINGLY: &str = "+OK\r\n-BUSY wait\r\n+OK\r\n-ERR there is no transaction\r\n";
    let script = vec![Act::Answer(ALL, BUSY), Act::Answer(ALL, SINGLY)];
    let (url, wrong) = reciter(vec![script]).await;
    let client = client(&url).await;
    let set = client.run(|mut tx| async move { tx.set("x", 1).await }).await;
    assert!(matches!(set, Err(Error::CommitUnknown(_))), "{set:?}");
    assert_eq!(*wrong.lock().expect("no panic"), Vec::<String>::new());
}

#[tokio::test]
async fn attempts_have_a_limit_and_the_last_error_is_kept() {
    const ONE: &[&str] = &["CLIENT REQUEST me0 1", "TXN BEGIN BLIND STRICT", "GET x"];
    const AGAIN: &[&str] = &["TXN ABORT", ONE[0], ONE[1], ONE[2]];
    let script = vec![
        Act::Answer(ONE, "+OK\r\n+OK\r\n-TXNABORT try again\r\n"),
        Act::Answer(AGAIN, "+OK\r\n+OK\r\n+OK\r\n-TXNABORT try again\r\n"),
    ];
    let (url, wrong) = reciter(vec![script]).await;
    let client = client(&url).await;
    let twice = TxOptions::default().attempts_max(2);
    let read = client.run_with(twice, |mut tx| async move { tx.get::<String>("x").await }).await;
    let Err(Error::Deadline { attempts: 2, last }) = read else { panic!("{read:?}") };
    assert_eq!(*last, Error::Aborted("TXNABORT try again".into()));
    assert_eq!(*wrong.lock().expect("no panic"), Vec::<String>::new());
}

#[tokio::test]
async fn the_first_address_that_answers_is_used_until_the_client_is_closed() {
    let dead = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let refusing = dead.local_addr().expect("an address");
    drop(dead);
    let (url, wrong) = reciter(Vec::new()).await;
    let both = url.replace("redis://", &format!("redis://{refusing},"));
    let client = client(&both).await;
    client.close().await;
    assert_eq!(client.get::<String>("x").await, Err(Error::Closed));
    assert_eq!(add_once(&client, "order-7").await.err(), Some(Error::Closed));
    let locked = client.lock("l", LockOptions::default()).await.err();
    assert_eq!(locked, Some(Error::Closed));
    assert_eq!(*wrong.lock().expect("no panic"), Vec::<String>::new());
}

#[tokio::test]
async fn a_write_whose_reply_does_not_come_in_time_may_have_happened() {
    // The shared connection is silent.
    let (url, wrong) = reciter(Vec::new()).await;
    let client = impatient(&url).await;
    let added = client.send::<i64>(Command::new("INCRBY").arg("n").arg(1)).await;
    assert!(matches!(&added, Err(error) if error.maybe_committed()), "{added:?}");
    assert_eq!(*wrong.lock().expect("no panic"), Vec::<String>::new());
}

#[tokio::test]
async fn a_read_without_a_reply_in_time_is_sent_again_over_another_connection() {
    const READ: &[&str] = &["CLIENT ORDER OFF", "GET x"];
    let (url, wrong) = reciter(vec![vec![Act::Answer(READ, "+OK\r\n$1\r\n7\r\n")]]).await;
    let client = impatient(&url).await;
    assert_eq!(client.get::<i64>("x").await, Ok(Some(7)));
    assert_eq!(*wrong.lock().expect("no panic"), Vec::<String>::new());
}

#[tokio::test]
async fn a_batch_without_replies_in_time_is_sent_again_under_its_number() {
    const BATCH: &[&str] = &["CLIENT REQUEST me0 1", "MULTI", "INCRBY n 1", "EXEC"];
    let again = Act::Answer(BATCH, "+OK\r\n+OK\r\n+QUEUED\r\n*1\r\n:5\r\n");
    let (url, wrong) = reciter(vec![vec![Act::Answer(BATCH, "")], vec![again]]).await;
    let client = impatient(&url).await;
    let sum = client.batch().then(Command::new("INCRBY").arg("n").arg(1)).commit_last().await;
    assert_eq!(sum, Ok(5));
    assert_eq!(*wrong.lock().expect("no panic"), Vec::<String>::new());
}

#[tokio::test]
async fn a_commit_without_a_reply_in_time_is_asked_for() {
    const ASK: &[&str] = &["TXN RESOLVE me0 1"];
    let silent = vec![Act::Answer(FIRST, "+OK\r\n+OK\r\n+QUEUED\r\n:7\r\n"), Act::Answer(LAST, "")];
    let (url, wrong) = reciter(vec![silent, vec![Act::Answer(ASK, ":1\r\n")]]).await;
    assert_eq!(size_and_add(&impatient(&url).await).await, Ok(7));
    assert_eq!(*wrong.lock().expect("no panic"), Vec::<String>::new());
}

#[tokio::test]
async fn a_command_that_blocks_may_take_as_long_as_it_says() {
    const BLOCKS: &[&str] = &["BLPOP jobs 0"];
    let (url, wrong) = reciter(vec![vec![Act::Answer(BLOCKS, "")]]).await;
    let mut dispatch = impatient(&url).await.dispatch().await.expect("a connection");
    let blocking = Command::new("BLPOP").arg("jobs").arg(0);
    let popped = dispatch.send::<ClientReply>(blocking).await.expect("it is sent");
    let early = tokio::time::timeout(Duration::from_millis(400), popped).await;
    assert!(early.is_err(), "{early:?}");
    assert_eq!(*wrong.lock().expect("no panic"), Vec::<String>::new());
}

#[tokio::test]
async fn a_release_whose_reply_was_lost_has_the_same_answer_again() {
    const ASK: &[&str] = &["CLIENT REQUEST mew0 1", "LOCK.ACQUIRE lock LEASE 30000 OWNER me"];
    const RELEASE: &[&str] = &["CLIENT REQUEST mew0 2", "LOCK.RELEASE lock 7"];
    for (answer, held) in [("+OK\r\n:1\r\n", true), ("+OK\r\n:0\r\n", false)] {
        let first = vec![Act::Answer(ASK, "+OK\r\n:7\r\n"), Act::Vanish(RELEASE)];
        let (url, wrong) = reciter(vec![first, vec![Act::Answer(RELEASE, answer)]]).await;
        let options = LockOptions { owner: "me".to_owned(), ..Default::default() };
        let lock = client(&url).await.lock("lock", options).await.expect("granted");
        assert_eq!(lock.release().await, Ok(held));
        assert_eq!(*wrong.lock().expect("no panic"), Vec::<String>::new());
    }
}

#[tokio::test]
async fn an_arrival_on_its_way_to_the_log_counts_although_its_time_is_over() {
    const ASK: &[&str] = &["CLIENT REQUEST mew0 1", "LOCK.RELEASE step 0"];
    for (answer, wanted) in [("+OK\r\n:9\r\n", Ok(9)), ("+OK\r\n:0\r\n", Err(Error::NotAcquired))] {
        let owner = LockOptions::default().owner;
        let wait = format!("BARRIER.WAIT step 3 OWNER {owner}");
        let wait: &'static [&'static str] = vec!["CLIENT REQUEST mew0 1", wait.leak()].leak();
        let script = vec![Act::Answer(wait, "+OK\r\n$-1\r\n"), Act::Answer(ASK, answer)];
        let (url, wrong) = reciter(vec![script]).await;
        assert_eq!(client(&url).await.barrier("step", 3, None).await, wanted);
        assert_eq!(*wrong.lock().expect("no panic"), Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_lock_request_with_next_says_so_and_waits_at_least_briefly() {
    const ASK: &[&str] =
        &["CLIENT REQUEST mew0 1", "LOCK.ACQUIRE lock LEASE 30000 OWNER me TIMEOUT 1 NEXT"];
    let (url, wrong) = reciter(vec![vec![Act::Answer(ASK, "+OK\r\n:7\r\n")]]).await;
    let client = client(&url).await;
    let timeout = Some(Duration::ZERO);
    // A request that does not wait cannot be part of a deadlock cycle, whatever its options.
    let options = LockOptions { owner: "me".to_owned(), timeout, next: true, ..Default::default() };
    let detecting = LockOptions { detect: true, ..options.clone() };
    let lock = client.lock("lock", detecting).await.expect("granted");
    assert_eq!(lock.token(), 7);
    let near = LockOptions { near: true, next: false, ..options.clone() };
    for wrong in [options, near] {
        let refused = client.campaign("jobs", "a:1", wrong).await.err();
        assert!(matches!(&refused, Some(Error::Refused(_))), "{refused:?}");
    }
    // The server is not asked, because it would not answer for such a lock.
    let mut tx = client.begin(TxOptions::default()).await.expect("it says nothing yet");
    let refused = lock.require_in(&mut tx).await;
    assert!(matches!(&refused, Err(Error::Refused(line)) if line.contains("fence")), "{refused:?}");
    assert_eq!(*wrong.lock().expect("no panic"), Vec::<String>::new());
}
