//! The program as users and supervisors see it: its output, its shutdown, and its state after a
//! kill.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

struct Server {
    child: Child,
    ready: String,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process has ended already, unless the test failed.
        let _ = self.child.kill();
    }
}

fn claret(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_claret"));
    command.args(args);
    command
}

fn serve(dir: &Path, args: &[&str]) -> Server {
    let dir = dir.to_str().unwrap();
    let mut child = claret(&["serve", "--dir", dir, "--port", "0", "--log-level", "warn"])
        .args(args)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    let address = ready.split("ready on ").nth(1).and_then(|rest| rest.split(' ').next());
    let address = address.unwrap_or_else(|| panic!("{ready:?}")).to_owned();
    Server { child, ready, address }
}

impl Server {
    fn connect(&self) -> BufReader<TcpStream> {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        BufReader::new(stream)
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
    }

    fn wait(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "does not stop");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn ask(client: &mut BufReader<TcpStream>, command: &str) -> String {
    client.get_mut().write_all(format!("{command}\r\n").as_bytes()).unwrap();
    let mut line = String::new();
    client.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

#[test]
fn the_ready_line_tells_where_and_what() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("data");
    let mut server = serve(&dir, &["--shards", "3", "--durability", "everysec"]);
    let expected = format!(
        "claret is ready on {} (data in {}, 3 shards, durability everysec)\n",
        server.address,
        dir.display()
    );
    assert_eq!(server.ready, expected);
    assert!(server.address.starts_with("127.0.0.1:"));
    server.signal("TERM");
    assert!(server.wait().success());
}

#[test]
fn every_way_to_stop_keeps_what_was_answered() {
    let temp = tempfile::tempdir().unwrap();
    let mut expected = 0;
    for stop in ["TERM", "INT", "KILL", "SHUTDOWN", "KILL", "KILL", "TERM"] {
        let mut server = serve(temp.path(), &["--shards", "2", "--workers", "2"]);
        let mut client = server.connect();
        for _ in 0..50 {
            expected += 1;
            assert_eq!(ask(&mut client, "INCR n"), format!(":{expected}"));
        }
        assert_eq!(ask(&mut client, &format!("SET {stop} {expected}")), "+OK");
        if stop == "SHUTDOWN" {
            client.get_mut().write_all(b"SHUTDOWN\r\n").unwrap();
            let mut rest = Vec::new();
            client.read_to_end(&mut rest).unwrap();
            assert!(rest.is_empty());
        } else {
            server.signal(stop);
        }
        assert_eq!(server.wait().success(), stop != "KILL", "{stop}");
    }
}

#[test]
fn a_kill_in_the_middle_of_writes_loses_no_answer() {
    let temp = tempfile::tempdir().unwrap();
    for round in 0..4u64 {
        let mut server = serve(temp.path(), &["--shards", "2", "--workers", "2"]);
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let mut client = server.connect();
                std::thread::spawn(move || {
                    let mut answered = 0u64;
                    loop {
                        let command = format!("SET w{writer}:{round} {}\r\n", answered + 1);
                        let mut line = String::new();
                        if client.get_mut().write_all(command.as_bytes()).is_err()
                            || client.read_line(&mut line).is_err()
                            || line != "+OK\r\n"
                        {
                            return answered;
                        }
                        answered += 1;
                    }
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(150 + 70 * round));
        server.signal("KILL");
        server.wait();
        let answered: Vec<u64> = writers.into_iter().map(|w| w.join().unwrap()).collect();

        let mut server = serve(temp.path(), &["--shards", "2", "--workers", "1"]);
        let mut client = server.connect();
        for (writer, answered) in answered.into_iter().enumerate() {
            ask(&mut client, &format!("GET w{writer}:{round}"));
            let mut value = String::new();
            client.read_line(&mut value).unwrap();
            let kept: u64 = value.trim().parse().unwrap();
            // The last command may have taken effect without an answer.
            assert!(kept == answered || kept == answered + 1, "{kept} kept, {answered} answered");
            assert!(answered > 0);
        }
        server.signal("TERM");
        assert!(server.wait().success());
    }
}

#[test]
fn what_is_wrong_is_said_before_anything_is_touched() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("data");
    let run = |args: &[&str]| {
        let output = claret(args).output().unwrap();
        assert!(!output.status.success(), "{args:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let dir = dir.to_str().unwrap();
    assert!(run(&["serve", "--dir", dir, "--shards", "0"]).contains("from 1 to"));
    assert!(run(&["serve", "--dir", dir, "--durability", "often"]).contains("everysec"));
    assert!(run(&["serve", "--dir", dir, "--bind", "0.0.0.0"]).contains("password"));
    assert!(run(&["serve", "--dir", dir, "--config", "/nonexistent"]).contains("/nonexistent"));
    assert!(!Path::new(dir).exists());
}

#[test]
fn the_doctor_fails_only_on_what_does_not_work() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("data");
    let doctor = |dir: &Path| {
        let dir = dir.to_str().unwrap();
        claret(&["doctor", "--dir", dir, "--port", "0", "--json"]).output().unwrap()
    };
    let well = doctor(&dir);
    assert!(well.status.success(), "{}", String::from_utf8_lossy(&well.stdout));
    let document: serde_json::Value = serde_json::from_slice(&well.stdout).unwrap();
    let findings = document["findings"].as_array().unwrap();
    assert!(findings.iter().any(|finding| finding["check"] == "fsync latency"));
    assert!(findings.iter().all(|finding| finding["verdict"] != "fail"));
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join("MANIFEST"), "format = 99\n").unwrap();
    let ill = doctor(&dir);
    assert_eq!(ill.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&ill.stdout).contains("format 99"));
}

#[tokio::test]
async fn a_client_in_rust_dispatches_commands_in_order() {
    let temp = tempfile::tempdir().unwrap();
    let server = serve(&temp.path().join("data"), &["--shards", "4", "--order", "constant"]);
    let client = client::Client::connect(&format!("redis://{}", server.address)).await.unwrap();
    let words = |words: &[&str]| client::Command::from_words(words).unwrap();
    let mut dispatch = client.dispatch().await.unwrap();
    let mut pushed = Vec::new();
    for number in 0..500 {
        let key = format!("list:{}", number % 7);
        pushed.push(dispatch.send::<i64>(words(&["RPUSH", &key, "x"])).await.unwrap());
        pushed.push(dispatch.send::<i64>(words(&["INCR", "total"])).await.unwrap());
    }
    dispatch.wait().await.unwrap();
    for (number, reply) in pushed.into_iter().enumerate() {
        let number = number as i64;
        let expected = if number % 2 == 0 { number / 2 / 7 + 1 } else { number / 2 + 1 };
        assert_eq!(reply.await, Ok(expected));
    }
    let mut pipeline = client.pipeline();
    for number in 0..100 {
        pipeline = pipeline.then(words(&["RPUSH", &format!("other:{}", number % 7), "x"]));
        pipeline = pipeline.then(words(&["INCR", "total"]));
    }
    let replies = pipeline.send().await.unwrap();
    assert_eq!(replies.last(), Some(&Ok(client::ClientReply::Int(600))));
}

#[tokio::test]
async fn a_client_in_rust_does_something_in_a_section() {
    use client::{Client, Command as Words, Error, LockOptions};
    let temp = tempfile::tempdir().unwrap();
    let server = serve(&temp.path().join("data"), &["--shards", "2"]);
    let client = Client::connect(&format!("redis://{}", server.address)).await.unwrap();
    let section = |command, timeout| {
        let options = LockOptions { timeout, ..LockOptions::default() };
        client.section::<Option<i64>>("lock{a}", options, command)
    };
    let count = || Words::new("INCR").arg("{a}count");
    assert_eq!(section(count(), None).await, Ok(Some(1)));
    let nothing = Words::new("HGET").arg("{a}map").arg("nothing");
    assert_eq!(section(nothing, None).await, Ok(None));
    let held = client.lock("lock{a}", LockOptions::default()).await.unwrap();
    let in_vain = section(count(), Some(Duration::from_millis(50))).await;
    assert_eq!(in_vain, Err(Error::NotAcquired));
    let (waited, released) = tokio::join!(section(count(), None), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        held.release().await
    });
    assert_eq!((waited, released), (Ok(Some(2)), Ok(true)));
    let elsewhere = section(Words::new("INCR").arg("elsewhere"), None).await;
    assert!(matches!(elsewhere, Err(Error::Refused(line)) if line.starts_with("CROSSSLOT")));
}

#[tokio::test]
async fn a_client_in_rust_holds_a_lock_renews_it_and_is_fenced_when_it_has_lost_it() {
    use client::{Client, Command as Words, Error, LockOptions};
    let temp = tempfile::tempdir().unwrap();
    let server = serve(&temp.path().join("data"), &["--shards", "2"]);
    let client = Client::connect(&format!("redis://{}", server.address)).await.unwrap();
    let lease = |ms| LockOptions { lease: Duration::from_millis(ms), ..LockOptions::default() };
    let set = |value: &str| Words::new("SET").arg("data").arg(value);

    let held = client.lock("lock", lease(600)).await.unwrap();
    let at_once = LockOptions { timeout: Some(Duration::ZERO), ..lease(600) };
    let refused = client.lock("lock", at_once).await;
    assert!(matches!(refused, Err(Error::NotAcquired)));
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(held.require().is_ok() && !held.left().is_zero(), "its lease was begun anew");
    held.fenced::<()>(set("first")).await.unwrap();

    // The next request waits in turn, and is granted at once.
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.lock("lock", lease(60_000)).await }
    });
    // A cancelled request leaves the queue.
    let given_up = tokio::time::timeout(
        Duration::from_millis(200),
        client.lock("lock", LockOptions::default()),
    );
    assert!(given_up.await.is_err());
    let first = held.token();
    let delete = || Words::new("DEL").arg("lock");
    client.send::<i64>(delete()).await.unwrap();
    let next = waiting.await.unwrap().unwrap();
    assert!(next.token() > first);
    next.fenced::<()>(set("second")).await.unwrap();

    // The former holder is stopped, and could not write either.
    let stopped = held.run(std::future::pending::<()>()).await;
    assert!(matches!(stopped, Err(Error::LockLost(_))), "{stopped:?}");
    let late = held.fenced::<()>(set("late")).await;
    assert!(matches!(late, Err(Error::LockLost(_))), "{late:?}");
    assert!(held.require().is_err() && !held.release().await.unwrap());

    // In a transaction the lock itself is checked.
    let mut tx = client.begin(client::TxOptions::default()).await.unwrap();
    next.require_in(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    client.send::<i64>(delete()).await.unwrap();
    let mut tx = client.begin(client::TxOptions::default()).await.unwrap();
    let lost = next.require_in(&mut tx).await;
    assert!(matches!(lost, Err(Error::LockLost(_))), "{lost:?}");
    drop(next);
    let last = client.lock("lock", lease(60_000)).await.unwrap();
    drop(last);
    let again = LockOptions { timeout: Some(Duration::from_secs(10)), ..lease(1000) };
    client.lock("lock", again).await.unwrap();
}

#[tokio::test]
async fn clients_in_rust_hand_a_lock_on_to_the_named_successor() {
    use client::{Client, Command as Words, Error, LockOptions, Share};
    use std::sync::atomic::{AtomicBool, Ordering};
    let temp = tempfile::tempdir().unwrap();
    let server = serve(&temp.path().join("data"), &["--shards", "2"]);
    let client = Client::connect(&format!("redis://{}", server.address)).await.unwrap();
    let options = LockOptions { next: true, ..LockOptions::default() };
    let held = client.lock("lock", options.clone()).await.unwrap();

    let inside = std::sync::Arc::new(AtomicBool::new(false));
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (client, options) = (client.clone(), options.clone());
            let inside = std::sync::Arc::clone(&inside);
            tokio::spawn(async move {
                for _ in 0..5 {
                    let lock = client.lock("lock", options.clone()).await.unwrap();
                    assert!(!inside.swap(true, Ordering::SeqCst), "two are in");
                    let push = Words::new("RPUSH").arg("tokens").arg(lock.token());
                    lock.fenced::<i64>(push).await.unwrap();
                    inside.store(false, Ordering::SeqCst);
                    assert!(lock.release().await.unwrap());
                }
            })
        })
        .collect();
    let all_wait = async || {
        let waiters = client.send(Words::new("LOCK.WAITERS").arg("lock")).await.unwrap();
        matches!(waiters, client::ClientReply::Array(rows) if rows.len() == 8)
    };
    while !all_wait().await {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // A request that does not wait is not in the queue.
    let at_once = LockOptions { timeout: Some(Duration::ZERO), ..options.clone() };
    let refused = client.lock("lock", at_once.clone()).await;
    assert!(matches!(refused, Err(Error::NotAcquired)));
    assert!(held.release().await.unwrap());
    for task in tasks {
        task.await.unwrap();
    }
    let range = Words::new("LRANGE").arg("tokens").arg(0).arg(-1);
    let tokens: Vec<u64> = client.send(range).await.unwrap();
    assert!(tokens.len() == 40 && tokens.windows(2).all(|pair| pair[0] < pair[1]), "{tokens:?}");

    // Whether such a lock is held cannot be queried.
    let lock = client.lock("lock", at_once).await.unwrap();
    let question = Words::new("LOCK.HELD").arg("lock").arg(lock.token());
    let told = client.send::<i64>(question).await;
    assert!(matches!(&told, Err(Error::Refused(line)) if line.contains("FENCE")), "{told:?}");
    let mut tx = client.begin(client::TxOptions::default()).await.unwrap();
    let told = lock.require_in(&mut tx).await;
    assert!(matches!(&told, Err(Error::Refused(line)) if line.contains("fence")), "{told:?}");
    drop(tx);

    // Successors exclude shared locks and locks kept by a server. The elected leader can be queried.
    for options in [
        LockOptions { share: Share::Shared, ..options.clone() },
        LockOptions { share: Share::Limit(2), ..options.clone() },
        LockOptions { near: true, ..options.clone() },
    ] {
        let refused = client.lock("other", options).await;
        assert!(matches!(refused, Err(Error::Refused(line)) if line.contains("NEXT")));
    }
    let refused = client.campaign("jobs", "a:1", options.clone()).await;
    assert!(matches!(refused, Err(Error::Refused(line)) if line.contains("election")));
    let options = LockOptions { next: false, ..options };
    let leader = client.campaign("jobs", "a:1", options).await.unwrap();
    let mut tx = client.begin(client::TxOptions::default()).await.unwrap();
    leader.require_in(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn clients_in_rust_elect_leaders_follow_them_and_meet_at_a_barrier() {
    use client::{Client, Error, LockOptions};
    let temp = tempfile::tempdir().unwrap();
    let server = serve(&temp.path().join("data"), &["--shards", "2"]);
    let client = Client::connect(&format!("redis://{}", server.address)).await.unwrap();
    let named = |owner: &str| LockOptions { owner: owner.to_owned(), ..LockOptions::default() };

    assert_eq!(client.leader("jobs").await, Ok(None));
    let mut observation = client.observe("jobs");
    let ann = client.campaign("jobs", "a:1", named("ann")).await.unwrap();
    let first = observation.next().await.unwrap().unwrap();
    assert_eq!(
        (&first.value[..], &first.owner[..], first.token),
        (&b"a:1"[..], "ann", ann.token())
    );
    let waiting = tokio::spawn({
        let (client, options) = (client.clone(), named("ben"));
        async move { client.campaign("jobs", "b:2", options).await }
    });
    // A cancelled observation loses nothing.
    let patience = tokio::time::timeout(Duration::from_millis(100), observation.next());
    assert!(patience.await.is_err());
    let version = ann.proclaim("a:9").await.unwrap();
    let second = observation.next().await.unwrap().unwrap();
    assert_eq!((&second.value[..], second.version), (&b"a:9"[..], version));
    assert!(ann.release().await.unwrap());
    let ben = waiting.await.unwrap().unwrap();
    let third = observation.next().await.unwrap().unwrap();
    assert!(third.value == b"b:2" && third.token == ben.token() && third.version > version);
    assert_eq!(client.leader("jobs").await.unwrap().map(|leader| leader.token), Some(ben.token()));
    client.send::<i64>(client::Command::new("DEL").arg("jobs")).await.unwrap();
    assert_eq!(observation.next().await, Ok(None), "no candidate leads any more");
    assert!(matches!(ben.proclaim("late").await, Err(Error::LockLost(_))));

    let meet = |timeout| {
        let client = client.clone();
        async move { client.barrier("step", 3, timeout).await }
    };
    assert_eq!(meet(Some(Duration::from_millis(50))).await, Err(Error::NotAcquired));
    let (one, two, three) = tokio::join!(meet(None), meet(None), meet(None));
    let (one, two, three) = (one.unwrap(), two.unwrap(), three.unwrap());
    assert!(one == two && two == three);
    let again = tokio::join!(meet(None), meet(None), meet(None));
    assert!(again.0.unwrap() > one, "it is usable again at once");
}

#[tokio::test]
async fn an_adaptive_lock_in_rust_stays_when_that_pays_and_goes_back_if_a_waiter_gives_up() {
    use client::{Client, Command as Words, LockOptions, RetainedOptions};
    let temp = tempfile::tempdir().unwrap();
    let server = serve(&temp.path().join("data"), &["--shards", "2"]);
    let client = Client::connect(&format!("redis://{}", server.address)).await.unwrap();
    let other = Client::connect(&format!("redis://{}", server.address)).await.unwrap();
    let kept =
        client.retained("lock", RetainedOptions { adaptive: true, ..RetainedOptions::default() });
    let soon = LockOptions { timeout: Some(Duration::from_secs(5)), ..LockOptions::default() };

    // The next request is cancelled just when it gets the lock.
    let stay = kept.lock().await.unwrap();
    let next = tokio::spawn({
        let kept = kept.clone();
        async move { drop(kept.lock().await) }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    drop(stay);
    next.abort();
    drop(other.lock("lock", soon.clone()).await.unwrap());

    for _ in 0..8 {
        drop(kept.lock().await.unwrap());
    }
    let holders = Words::new("LOCK.HOLDERS").arg("lock");
    let held: client::ClientReply = other.send(holders).await.unwrap();
    assert!(matches!(&held, client::ClientReply::Array(rows) if rows.len() == 1), "{held:?}");
    drop(other.lock("lock", soon).await.unwrap());
}

#[tokio::test]
async fn a_process_in_rust_keeps_a_lock_until_another_client_wants_it() {
    use client::{Client, Command as Words, Error, LockOptions, RetainedOptions};
    let temp = tempfile::tempdir().unwrap();
    let server = serve(&temp.path().join("data"), &["--shards", "2"]);
    let client = Client::connect(&format!("redis://{}", server.address)).await.unwrap();
    let other = Client::connect(&format!("redis://{}", server.address)).await.unwrap();
    let options = RetainedOptions { cohort: 3, tokens: 1000, ..RetainedOptions::default() };
    let kept = client.retained("lock", options.clone());
    let first = kept.lock().await.unwrap();
    let begin = first.token();
    first.fenced::<()>(Words::new("SET").arg("data").arg("first")).await.unwrap();
    let soon = RetainedOptions { timeout: Some(Duration::from_millis(50)), ..options.clone() };
    let in_vain = other.retained("lock", soon).lock().await.err();
    assert_eq!(in_vain, Some(Error::NotAcquired));
    drop(first);

    // Tasks take turns, in the order of arrival, without any request to the server.
    let stays = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let tasks: Vec<_> = (0..8u64)
        .map(|n| {
            let (kept, stays) = (kept.clone(), std::sync::Arc::clone(&stays));
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(20 * n)).await;
                let stay = kept.lock().await.unwrap();
                tokio::time::sleep(Duration::from_millis(150)).await;
                stays.lock().unwrap().push(stay.token());
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(180)).await;
    // Another client requests the lock, and gets it after a full cohort.
    let guest = other.lock("lock", LockOptions::default()).await.unwrap();
    let before = stays.lock().unwrap().len();
    assert!((3..=6).contains(&before), "{before}");
    let all_before = stays.lock().unwrap().clone();
    assert!(all_before[0] > begin, "every stay has a token of its own");
    let taken = guest.token();
    assert!(all_before.iter().all(|token| *token < taken));
    guest.release().await.unwrap();
    for task in tasks {
        task.await.unwrap();
    }
    let stays = stays.lock().unwrap().clone();
    assert!(stays.is_sorted() && stays[before] > taken && stays.len() == 8);

    // No task holds the lock: another client gets it at once. The last clone gives it back.
    drop(other.lock("lock", LockOptions::default()).await.unwrap());
    drop(kept.lock().await.unwrap());
    drop(kept);
    let at_once = LockOptions { timeout: Some(Duration::from_secs(5)), ..LockOptions::default() };
    other.lock("lock", at_once).await.unwrap();
}

#[tokio::test]
async fn a_client_in_rust_has_handles_of_types_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path(), &[]);
    let client = client::Client::connect(&format!("redis://{}", server.address)).await.unwrap();
    let text = include_str!("../../../examples/types/stock.type");
    let stocks = client::Type::parse(text).unwrap();
    assert_eq!((stocks.define(&client).await, stocks.define(&client).await), (Ok(1), Ok(1)));
    let pears = stocks.at("pears");
    pears.tell(&client, "add", &[&3]).await.unwrap();
    let (reserved, free): (bool, i64) = client
        .run_with(client::TxOptions::default().returning(), |mut tx| {
            let pears = pears.clone();
            async move {
                let reserved = pears.ask(&mut tx, "reserve", &[&"order:1", &2, &60_000]).await?;
                Ok((reserved, pears.ask(&mut tx, "free", &[]).await?))
            }
        })
        .await
        .unwrap();
    assert_eq!((reserved, free), (true, 1));
    let batch = client.batch().then(pears.command("buy", &[&"order:1"]).unwrap());
    assert_eq!(batch.commit().await.unwrap(), [Ok(client::ClientReply::Int(1))]);
    for (operation, arguments, wanted) in [
        ("sell", &[] as &[&dyn client::ToArg], "only add, reserve"),
        ("add", &[], "key n"),
        ("buy", &[&"order:1"], "GONE the reservation has ended"),
        ("add", &[&"x"], "n is not an integer"),
    ] {
        let error = pears.ask::<i64>(&client, operation, arguments).await.unwrap_err();
        assert!(error.to_string().contains(wanted), "{operation}: {error}");
    }
    let later = client::Type::parse(&text.replace("op free", "op left")).unwrap();
    assert!(later.define(&client).await.unwrap_err().to_string().contains("TYPE.MIGRATE"));
    assert_eq!(later.migrate(&client).await, Ok(2));
    assert_eq!(later.at("pears").ask::<i64>(&client, "left", &[]).await, Ok(1));
    let error = client::Type::parse("type t\npart n counter\nop o").unwrap_err();
    assert!(error.to_string().contains("the operation o has no step"), "{error}");
}
