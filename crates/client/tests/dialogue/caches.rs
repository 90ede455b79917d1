//! Caches: what the stories of all clients do not show.

use crate::{options, spoken};
use client::{Cache, CacheOptions, CacheStats, Client, Command, Error, Options, Pairs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, timeout};

const ONE: &str = "$1\r\n1\r\n";
const TWO: &str = "$1\r\n2\r\n";
const CHANGED_X: &str = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nx\r\n";
const CHANGED_ALL: &str = ">2\r\n$10\r\ninvalidate\r\n_\r\n";

/// Time after which a late answer is given.
const LATE: Duration = Duration::from_millis(150);

/// Reaction of a server to a command.
enum Act {
    Answer(String),
    Late(String),
    Usual,
    Silence,
    Close,
}

/// A row of `COMMAND INFO`.
fn row(flags: &str, first: i64, last: i64) -> String {
    let count = flags.split(' ').count();
    let flags: String = flags.split(' ').map(|flag| format!("+{flag}\r\n")).collect();
    format!("*1\r\n*6\r\n$1\r\nc\r\n:2\r\n~{count}\r\n{flags}:{first}\r\n:{last}\r\n:1\r\n")
}

/// The usual answers.
fn usual(command: &str) -> String {
    match command {
        "HELLO 3" => "%0\r\n".to_owned(),
        "CLIENT TRACKING ON" => "+OK\r\n".to_owned(),
        "PING" => "+PONG\r\n".to_owned(),
        "COMMAND INFO GET" => row("readonly fast", 1, 1),
        "COMMAND INFO MGET" => row("readonly fast", 1, -1),
        "COMMAND INFO SORT_RO" => row("readonly movablekeys", 1, 1),
        "COMMAND INFO INCR" => row("write fast", 1, 1),
        "COMMAND INFO DBSIZE" => row("readonly fast", 0, 0),
        info if info.starts_with("COMMAND INFO ") => "*1\r\n_\r\n".to_owned(),
        _ => "-ERR unexpected\r\n".to_owned(),
    }
}

/// A server and what it has heard.
struct Server {
    url: String,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Serves all connections by a rule.
    async fn start(rule: impl Fn(&str) -> Act + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("redis://{}", listener.local_addr().expect("an address"));
        let heard = Arc::new(Mutex::new(Vec::new()));
        let (told, rule) = (Arc::clone(&heard), Arc::new(rule));
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.expect("a connection");
                tokio::spawn(serve(stream, Arc::clone(&rule), Arc::clone(&told)));
            }
        });
        Self { url, heard }
    }

    fn client(&self, options: Options) -> Client {
        Client::new(&self.url, options).expect("a URL")
    }

    fn cache(&self) -> Cache {
        self.client(options()).cache(CacheOptions::default())
    }

    /// Commands that the server has heard and that begin with a word, in their order.
    fn heard(&self, word: &str) -> Vec<String> {
        let heard = self.heard.lock().expect("no panic");
        heard.iter().filter(|command| command.starts_with(word)).cloned().collect()
    }
}

async fn serve(
    mut stream: TcpStream,
    rule: Arc<impl Fn(&str) -> Act>,
    heard: Arc<Mutex<Vec<String>>>,
) {
    let (mut bytes, mut done) = (Vec::new(), 0);
    while stream.read_buf(&mut bytes).await.is_ok_and(|count| count > 0) {
        let commands = spoken(&bytes);
        for command in &commands[done..] {
            heard.lock().expect("no panic").push(command.clone());
            let answer = match rule(command) {
                Act::Answer(answer) => answer,
                Act::Late(answer) => {
                    sleep(LATE).await;
                    answer
                }
                Act::Usual => usual(command),
                Act::Silence => continue,
                Act::Close => return,
            };
            if stream.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
        done = commands.len();
    }
    heard.lock().expect("no panic").push("END".to_owned());
}

/// Waits until something holds.
async fn until(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(5);
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        sleep(Duration::from_millis(2)).await;
    }
}

async fn get(cache: &Cache, key: &str) -> client::Result<Option<i64>> {
    cache.get(key).await
}

fn stats(hits: u64, misses: u64, dropped: u64) -> CacheStats {
    CacheStats { hits, misses, dropped }
}

/// A rule by which reads have answers, one after another.
fn answers(answers: &'static [&'static str]) -> impl Fn(&str) -> Act {
    let next = Mutex::new(answers.iter());
    move |command| match command.starts_with("GET ") {
        true => Act::Answer(next.lock().expect("no panic").next().unwrap_or(&"").to_string()),
        false => Act::Usual,
    }
}

#[tokio::test]
async fn a_reply_on_its_way_when_its_key_changes_is_not_kept() {
    const CHANGED_BEFORE: &str = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nx\r\n$1\r\n1\r\n";
    let server = Server::start(answers(&[CHANGED_BEFORE, TWO])).await;
    let cache = server.cache();
    assert_eq!(get(&cache, "x").await, Ok(Some(1)));
    assert_eq!(get(&cache, "x").await, Ok(Some(2)));
    assert_eq!(get(&cache, "x").await, Ok(Some(2)));
    assert_eq!(cache.stats(), stats(1, 2, 0));
    let asked = ["HELLO 3", "CLIENT TRACKING ON", "COMMAND INFO GET", "GET x", "GET x"];
    let heard = server.heard("");
    assert_eq!(heard.iter().filter(|said| *said != "PING").collect::<Vec<_>>(), asked);
}

#[tokio::test]
async fn replies_are_dropped_when_the_server_says_so() {
    let told = AtomicBool::new(false);
    let server = Server::start(move |command| match command {
        "GET x" | "GET y" if told.load(Ordering::Relaxed) => Act::Answer(TWO.to_owned()),
        "GET x" | "GET y" => Act::Answer(ONE.to_owned()),
        "GET change" => Act::Answer([TWO, CHANGED_X].concat()),
        "GET change-all" => {
            told.store(true, Ordering::Relaxed);
            Act::Answer([TWO, CHANGED_ALL].concat())
        }
        _ => Act::Usual,
    });
    let server = server.await;
    let cache = server.cache();
    assert_eq!((get(&cache, "x").await, get(&cache, "y").await), (Ok(Some(1)), Ok(Some(1))));
    assert_eq!(get(&cache, "change").await, Ok(Some(2)));
    until("x is dropped", || cache.stats().dropped == 1).await;
    assert_eq!((get(&cache, "y").await, get(&cache, "x").await), (Ok(Some(1)), Ok(Some(1))));
    assert_eq!(get(&cache, "change-all").await, Ok(Some(2)));
    // All four are dropped, also the one that has said so.
    until("all are dropped", || cache.stats().dropped == 5).await;
    assert_eq!((get(&cache, "x").await, get(&cache, "y").await), (Ok(Some(2)), Ok(Some(2))));
    assert_eq!(cache.stats(), stats(1, 7, 5));
}

#[tokio::test]
async fn a_read_whose_connection_breaks_is_sent_again_and_counts_once() {
    let broken = AtomicBool::new(false);
    let server = Server::start(move |command| match command {
        "GET x" if broken.swap(true, Ordering::Relaxed) => Act::Answer(TWO.to_owned()),
        "GET x" => Act::Close,
        "GET y" => Act::Answer(ONE.to_owned()),
        _ => Act::Usual,
    });
    let server = server.await;
    let cache = server.cache();
    assert_eq!(get(&cache, "y").await, Ok(Some(1)));
    assert_eq!(get(&cache, "x").await, Ok(Some(2)));
    assert_eq!(cache.stats(), stats(0, 2, 1));
    assert_eq!(server.heard("HELLO").len(), 2);
    // What was read before was dropped with the connection.
    assert_eq!(get(&cache, "y").await, Ok(Some(1)));
    assert_eq!(server.heard("GET y").len(), 2);
}

#[tokio::test]
async fn nothing_is_answered_for_a_silent_server() {
    let silent = Arc::new(AtomicBool::new(false));
    let is_silent = Arc::clone(&silent);
    let server = Server::start(move |command| match command {
        "HELLO 3" => {
            // A new connection finds the server well.
            is_silent.store(false, Ordering::Relaxed);
            Act::Usual
        }
        _ if is_silent.load(Ordering::Relaxed) => Act::Silence,
        "GET x" => Act::Answer(ONE.to_owned()),
        _ => Act::Usual,
    });
    let server = server.await;
    let patience = Some(Duration::from_millis(2500));
    let client = server.client(Options { reply_timeout: patience, ..options() });
    let cache = client.cache(CacheOptions::default());
    assert_eq!((get(&cache, "x").await, get(&cache, "x").await), (Ok(Some(1)), Ok(Some(1))));
    silent.store(true, Ordering::Relaxed);
    sleep(Duration::from_millis(2100)).await;
    let late = timeout(Duration::from_millis(100), get(&cache, "x")).await;
    assert!(late.is_err(), "{late:?}");
    assert_eq!(server.heard("HELLO").len(), 1);
    // The next reader waits for the same request, and then for another connection.
    assert_eq!(get(&cache, "x").await, Ok(Some(1)));
    assert_eq!(server.heard("HELLO").len(), 2);
    assert_eq!(cache.stats(), stats(2, 2, 0));
}

#[tokio::test]
async fn only_reads_of_one_key_are_sent() {
    let server = Server::start(|command| match command {
        "MGET x" => Act::Answer("*1\r\n_\r\n".to_owned()),
        _ => Act::Usual,
    });
    let server = server.await;
    let cache = server.cache();
    let refused = ["INCR x", "MGET x y", "SORT_RO x", "DBSIZE x", "GET", "lot.bid x 5"];
    for command in refused {
        let words: Vec<_> = command.split(' ').collect();
        let read = cache.read::<()>(Command::from_words(&words).expect("words")).await;
        assert!(matches!(read, Err(Error::Order(_))), "{command}: {read:?}");
    }
    let heard = server.heard("");
    assert!(!heard.iter().any(|said| refused.contains(&said.as_str())), "{heard:?}");
    let row: Vec<Option<String>> = cache.read(Command::new("MGET").arg("x")).await.expect("a row");
    assert_eq!((row, cache.stats()), (vec![None], stats(0, 1, 0)));
    // What the table says is asked once.
    let read = cache.read::<()>(Command::new("incr").arg("x")).await;
    assert!(matches!(read, Err(Error::Order(_))));
    assert_eq!(server.heard("COMMAND INFO INCR").len(), 1);
}

#[tokio::test]
async fn a_reader_that_gives_up_leaves_others_their_reply() {
    let server = Server::start(|command| match command {
        "GET x" | "GET y" => Act::Late(ONE.to_owned()),
        _ => Act::Usual,
    });
    let server = server.await;
    let cache = server.cache();
    let soon = LATE / 5;
    assert!(timeout(soon, get(&cache, "x")).await.is_err());
    // The second reader waits for the request of the first.
    assert_eq!(get(&cache, "x").await, Ok(Some(1)));
    // A reply is kept although no reader waits for it.
    assert!(timeout(soon, get(&cache, "y")).await.is_err());
    sleep(LATE).await;
    assert_eq!(get(&cache, "y").await, Ok(Some(1)));
    assert_eq!((server.heard("GET x").len(), server.heard("GET y").len()), (1, 1));
}

#[tokio::test]
async fn a_connection_ends_with_its_cache_or_its_client() {
    let server = Server::start(answers(&[ONE, ONE, ONE, ONE])).await;
    let client = server.client(options());
    let caches = [0; 3].map(|_| client.cache(CacheOptions::default()));
    for cache in &caches {
        assert_eq!(get(cache, "x").await, Ok(Some(1)));
    }
    let [closed, dropped, last] = caches;
    closed.close();
    assert_eq!(get(&closed, "x").await, Err(Error::Closed));
    until("a closed cache has no connection", || server.heard("END").len() == 1).await;
    let clone = dropped.clone();
    drop(dropped);
    assert_eq!(get(&clone, "x").await, Ok(Some(1)));
    drop(clone);
    until("a dropped cache has no connection", || server.heard("END").len() == 2).await;
    client.close().await;
    assert_eq!(get(&last, "x").await, Err(Error::Closed));
    until("a closed client has no connection", || server.heard("END").len() == 3).await;
    assert_eq!(last.stats(), stats(0, 1, 1));
}

#[tokio::test]
async fn requests_without_a_reply_are_bounded() {
    const UNDER_WAY_MAX: usize = 4096;
    let is_silent = AtomicBool::new(false);
    let server = Server::start(move |command| match command {
        "GET x" => Act::Answer(ONE.to_owned()),
        get if get.starts_with("GET ") || is_silent.load(Ordering::Relaxed) => {
            is_silent.store(true, Ordering::Relaxed);
            Act::Silence
        }
        _ => Act::Usual,
    });
    let server = server.await;
    let cache = server.cache();
    assert_eq!(get(&cache, "x").await, Ok(Some(1)));
    let reads: Vec<_> = (0..UNDER_WAY_MAX + 10)
        .map(|number| {
            let cache = cache.clone();
            tokio::spawn(async move { get(&cache, &number.to_string()).await })
        })
        .collect();
    until("requests are sent", || server.heard("GET ").len() > UNDER_WAY_MAX).await;
    sleep(Duration::from_millis(50)).await;
    assert_eq!(server.heard("GET ").len(), 1 + UNDER_WAY_MAX);
    // Memory answers meanwhile.
    assert_eq!(get(&cache, "x").await, Ok(Some(1)));
    cache.close();
    for read in reads {
        assert_eq!(read.await.expect("no panic"), Err(Error::Closed));
    }
}

#[tokio::test]
async fn replies_are_of_the_kind_that_the_reader_asks_for() {
    let server = Server::start(|command| match command {
        "COMMAND INFO HGETALL" => Act::Answer(row("readonly", 1, 1)),
        "HGETALL h" => Act::Answer("%1\r\n$1\r\nf\r\n$1\r\n1\r\n".to_owned()),
        "GET x" => Act::Answer(ONE.to_owned()),
        _ => Act::Usual,
    });
    let server = server.await;
    let cache = server.cache();
    for _ in 0..2 {
        assert_eq!(cache.hgetall("h").await, Ok(Pairs(vec![("f".to_owned(), "1".to_owned())])));
        assert_eq!(cache.get::<String>("x").await, Ok(Some("1".to_owned())));
        let wrong = cache.read::<Vec<i64>>(Command::new("GET").arg("x")).await;
        assert!(matches!(wrong, Err(Error::Type { .. })), "{wrong:?}");
    }
    assert_eq!(cache.stats(), stats(4, 2, 0));
}
