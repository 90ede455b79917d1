//! A whole server over real sockets.

mod support;

use engine::limits::{ARGUMENT_BYTES_MAX, OUTPUT_BYTES_MAX, UNAUTHENTICATED_FRAME_BYTES_MAX};
use server::config::{Bytes, Durability, Options, Settings, UserSettings};
use server::net::secret::Secret;
use server::start;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use support::{bulk, connect, error, serve, settings};
use wire::resp::ClientReply;

#[test]
fn commands_are_answered_and_survive_a_restart() {
    let temp = tempfile::tempdir().unwrap();
    let server = serve(settings(temp.path()));
    let mut client = connect(server.address());
    assert_eq!(client.ask(&["PING"]), ClientReply::Status(adt::Blob::new(b"PONG")));
    for key in 0..100 {
        let key = format!("key:{key}");
        assert_eq!(client.ask(&["SET", &key, &key]), ClientReply::Ok);
    }
    assert_eq!(client.ask(&["INCRBY", "n", "41"]), ClientReply::Int(41));
    server.stop();

    let server = serve(settings(temp.path()));
    let mut client = connect(server.address());
    for key in 0..100 {
        let key = format!("key:{key}");
        assert_eq!(client.ask(&["GET", &key]), bulk(&key));
    }
    assert_eq!(client.ask(&["INCR", "n"]), ClientReply::Int(42));
    assert_eq!(client.ask(&["DBSIZE"]), ClientReply::Int(101));
    server.stop();
}

#[test]
fn every_durability_keeps_data_over_a_clean_stop() {
    for durability in [Durability::Always, Durability::Everysec, Durability::None] {
        let temp = tempfile::tempdir().unwrap();
        let with = || Settings { durability: Some(durability), ..settings(temp.path()) };
        for round in 1..=3 {
            let server = serve(with());
            let mut client = connect(server.address());
            assert_eq!(client.ask(&["INCR", "rounds"]), ClientReply::Int(round), "{durability}");
            server.stop();
        }
    }
}

#[test]
fn durabilities_can_follow_each_other() {
    let temp = tempfile::tempdir().unwrap();
    let order = [Durability::Always, Durability::None, Durability::Always, Durability::None];
    for (round, durability) in order.into_iter().chain(order).enumerate() {
        let server = serve(Settings { durability: Some(durability), ..settings(temp.path()) });
        let mut client = connect(server.address());
        for _ in 0..10 {
            client.ask(&["INCR", "n"]);
        }
        assert_eq!(client.ask(&["GET", "n"]), bulk(&((round + 1) * 10).to_string()));
        server.stop();
    }
}

#[test]
fn transactions_cross_workers_and_shards() {
    let temp = tempfile::tempdir().unwrap();
    let server = serve(settings(temp.path()));
    let mut clients: Vec<_> = (0..4).map(|_| connect(server.address())).collect();
    // Keys on both shards: every client on every worker reaches both.
    for (index, client) in clients.iter_mut().enumerate() {
        for key in ["a", "b", "c", "d"] {
            assert_eq!(client.ask(&["MULTI"]), ClientReply::Ok);
            client.ask(&["INCR", key]);
            client.ask(&["INCR", "total"]);
            let reply = client.ask(&["EXEC"]);
            let ClientReply::Array(items) = reply else { panic!("{reply:?}") };
            assert_eq!(items[0], ClientReply::Int(index as i64 + 1));
        }
    }
    assert_eq!(clients[0].ask(&["GET", "total"]), bulk("16"));
    let values = clients[1].ask(&["MGET", "a", "b", "c", "d"]);
    assert_eq!(values, ClientReply::Array(vec![bulk("4"), bulk("4"), bulk("4"), bulk("4")]));
    server.stop();
}

#[test]
fn a_long_pipeline_is_answered_in_order() {
    let temp = tempfile::tempdir().unwrap();
    let server = serve(settings(temp.path()));
    let mut client = connect(server.address());
    let mut writer = client.stream.try_clone().unwrap();
    let count = 50_000;
    let sending = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        for _ in 0..count {
            wire::resp::encode_command(["INCR", "n"], &mut bytes);
        }
        // Cut everywhere: frames do not end where packets do.
        for chunk in bytes.chunks(7_919) {
            writer.write_all(chunk).unwrap();
        }
    });
    for expected in 1..=count {
        assert_eq!(client.receive(), Some(ClientReply::Int(expected)));
    }
    sending.join().unwrap();
    server.stop();
}

#[test]
fn large_values_come_back_and_too_large_ones_are_refused() {
    let temp = tempfile::tempdir().unwrap();
    let server = serve(settings(temp.path()));
    let mut client = connect(server.address());
    let value = vec![b'x'; ARGUMENT_BYTES_MAX];
    assert_eq!(client.ask(&[b"SET", &b"large"[..], &value]), ClientReply::Ok);
    assert_eq!(client.ask(&["GET", "large"]), ClientReply::Bulk(adt::Blob::new(&value)));
    client
        .stream
        .write_all(format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n", value.len() + 1).as_bytes())
        .unwrap();
    assert!(error(&client.receive().unwrap()).contains("invalid bulk length"));
    client.stream.write_all(&[&value[..], b"x\r\n"].concat()).unwrap();
    assert_eq!(client.ask(&["EXISTS", "k"]), ClientReply::Int(0), "the connection goes on");
    assert_eq!(
        connect(server.address()).ask(&["STRLEN", "large"]),
        ClientReply::Int(value.len() as i64)
    );
    server.stop();
}

#[test]
fn replies_that_are_due_are_sent_before_a_broken_connection_is_closed() {
    let temp = tempfile::tempdir().unwrap();
    let server = serve(settings(temp.path()));
    let mut client = connect(server.address());
    client.stream.write_all(b"INCR n\r\nINCR n\r\n*1\r\n:3\r\n").unwrap();
    assert_eq!(client.receive(), Some(ClientReply::Int(1)));
    assert_eq!(client.receive(), Some(ClientReply::Int(2)));
    assert!(error(&client.receive().unwrap()).contains("Protocol error"));
    assert_eq!(client.receive(), None);
    server.stop();
}

#[test]
fn a_client_that_has_said_everything_still_gets_its_replies() {
    let temp = tempfile::tempdir().unwrap();
    let server = serve(settings(temp.path()));
    let mut client = connect(server.address());
    client.stream.write_all(b"INCR n\r\nINCR n\r\nGET n\r\n").unwrap();
    client.stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(client.receive(), Some(ClientReply::Int(1)));
    assert_eq!(client.receive(), Some(ClientReply::Int(2)));
    assert_eq!(client.receive(), Some(bulk("2")));
    assert_eq!(client.receive(), None);
    // But it does not wait for other clients.
    let mut waiting = connect(server.address());
    waiting.send(&["BLPOP", "list", "0"]);
    waiting.stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(waiting.receive(), None);
    assert_eq!(connect(server.address()).ask(&["RPUSH", "list", "x"]), ClientReply::Int(1));
    assert_eq!(connect(server.address()).ask(&["LLEN", "list"]), ClientReply::Int(1));
    server.stop();
}

#[test]
fn a_client_that_reads_late_gets_all_and_others_are_served_meanwhile() {
    let temp = tempfile::tempdir().unwrap();
    let server = serve(settings(temp.path()));
    let mut late = connect(server.address());
    let value = vec![b'x'; 4 << 20];
    assert_eq!(late.ask(&[b"SET", &b"large"[..], &value]), ClientReply::Ok);
    let gets = OUTPUT_BYTES_MAX / value.len() + 20;
    let mut bytes = Vec::new();
    for _ in 0..gets {
        wire::resp::encode_command(["GET", "large"], &mut bytes);
    }
    late.stream.write_all(&bytes).unwrap();
    let mut other = connect(server.address());
    for _ in 0..20 {
        assert_eq!(other.ask(&["STRLEN", "large"]), ClientReply::Int(4 << 20));
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut missing = gets * (value.len() + "$4194304\r\n\r\n".len());
    let mut chunk = vec![0; 1 << 20];
    while missing > 0 {
        let wanted = missing.min(chunk.len());
        let count = late.stream.read(&mut chunk[..wanted]).unwrap();
        assert!(count > 0, "{missing} bytes are missing");
        missing -= count;
    }
    assert_eq!(late.ask(&["PING"]), ClientReply::Status("PONG".into()));
    server.stop();
}

#[test]
fn connections_above_the_limit_are_told_so() {
    let temp = tempfile::tempdir().unwrap();
    let server = serve(Settings { maxclients: Some(3), ..settings(temp.path()) });
    let mut clients: Vec<_> = (0..3).map(|_| connect(server.address())).collect();
    for client in &mut clients {
        client.ask(&["PING"]);
    }
    let refused = connect(server.address()).receive().unwrap();
    assert_eq!(error(&refused), "ERR max number of clients reached");
    clients.pop();
    let begun = Instant::now();
    loop {
        let mut client = connect(server.address());
        client.send(&["ECHO", "x"]);
        if client.receive() == Some(bulk("x")) {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(5), "the place is not free again");
    }
    server.stop();
}

#[test]
fn a_password_is_asked_for_and_strangers_cost_little() {
    let temp = tempfile::tempdir().unwrap();
    let server = serve(Settings {
        password: Some(Secret::new("open sesame")),
        users: vec![UserSettings {
            name: "reader".to_owned(),
            password: Some(Secret::new("r")),
            password_hash: None,
            rules: ["on", "~*", "+@read"].map(str::to_owned).to_vec(),
        }],
        ..settings(temp.path())
    });
    let mut client = connect(server.address());
    assert!(error(&client.ask(&["GET", "a"])).starts_with("NOAUTH"));
    let begun = Instant::now();
    assert!(error(&client.ask(&["AUTH", "open barley"])).starts_with("WRONGPASS"));
    assert!(begun.elapsed() >= Duration::from_millis(500), "guessing is slow");
    // Commands after an AUTH in the same packet may be long.
    let long = "v".repeat(10 * UNAUTHENTICATED_FRAME_BYTES_MAX);
    let mut bytes = Vec::new();
    wire::resp::encode_command(["AUTH", "open sesame"], &mut bytes);
    wire::resp::encode_command(["SET", "a", &long], &mut bytes);
    client.stream.write_all(&bytes).unwrap();
    assert_eq!(client.receive(), Some(ClientReply::Ok));
    assert_eq!(client.receive(), Some(ClientReply::Ok));
    let mut reader = connect(server.address());
    assert_eq!(reader.ask(&["AUTH", "reader", "r"]), ClientReply::Ok);
    assert_eq!(reader.ask(&["STRLEN", "a"]), ClientReply::Int(long.len() as i64));
    assert!(error(&reader.ask(&["SET", "a", "1"])).starts_with("NOPERM"));

    let mut stranger = connect(server.address());
    stranger.send(&["GET", &long]);
    assert!(error(&stranger.receive().unwrap()).contains("Protocol error"));
    assert_eq!(stranger.receive(), None);
    server.stop();
}

#[test]
fn a_silent_stranger_is_disconnected() {
    let temp = tempfile::tempdir().unwrap();
    let server = serve(Settings { password: Some(Secret::new("x")), ..settings(temp.path()) });
    let mut silent = connect(server.address());
    let begun = Instant::now();
    assert_eq!(silent.receive(), None);
    assert!(begun.elapsed() >= Duration::from_secs(9));
    server.stop();
}

#[test]
fn snapshots_let_go_of_the_log_while_clients_write() {
    let temp = tempfile::tempdir().unwrap();
    let small = || Settings {
        snapshot_log_bytes: Some(Bytes(1 << 20)),
        shards: Some(1),
        ..settings(temp.path())
    };
    let server = serve(small());
    let mut client = connect(server.address());
    let value = "x".repeat(10_000);
    for round in 0..30 {
        for key in 0..20 {
            client.send(&["SET", &format!("key:{key}"), &format!("{round} {value}")]);
        }
        for _ in 0..20 {
            assert_eq!(client.receive(), Some(ClientReply::Ok));
        }
    }
    let snapshots = temp.path().join("data/snapshots");
    let names = || -> Vec<String> {
        let entries = std::fs::read_dir(&snapshots).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    assert!(names().iter().any(|name| name.ends_with(".snap")), "{:?}", names());
    assert_eq!(client.ask(&["SAVE"]), ClientReply::Ok);
    assert_eq!(names().len(), 1, "{:?}", names());
    client.ask(&["SET", "after", "1"]);
    server.stop();
    let server = serve(small());
    let mut client = connect(server.address());
    assert_eq!(client.ask(&["GET", "key:7"]), bulk(&format!("29 {value}")));
    assert_eq!(client.ask(&["GET", "after"]), bulk("1"));
    assert_eq!(client.ask(&["DBSIZE"]), ClientReply::Int(21));
    server.stop();
}

#[test]
fn writes_that_grow_are_refused_above_the_memory_limit() {
    let temp = tempfile::tempdir().unwrap();
    let server = serve(settings(temp.path()));
    let mut client = connect(server.address());
    client.ask(&["SET", "a", "1"]);
    assert_eq!(client.ask(&["CONFIG", "SET", "maxmemory", "1mb"]), ClientReply::Ok);
    let begun = Instant::now();
    loop {
        let reply = client.ask(&["APPEND", "a", "x"]);
        if reply.error_code() == Some("OOM") {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(5), "{reply:?}");
    }
    assert!(matches!(client.ask(&["GET", "a"]), ClientReply::Bulk(_)));
    assert_eq!(client.ask(&["DEL", "a"]), ClientReply::Int(1));
    assert!(error(&client.ask(&["CONFIG", "SET", "port", "1"])).contains("restart"));
    server.stop();
}

#[test]
fn metrics_and_health_are_served() {
    let temp = tempfile::tempdir().unwrap();
    let server = serve(Settings { metrics_port: Some(0), ..settings(temp.path()) });
    let mut client = connect(server.address());
    for _ in 0..5 {
        client.ask(&["INCR", "a"]);
    }
    let get = |path: &str| {
        let mut stream = TcpStream::connect(server.metrics_address().unwrap()).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    assert!(get("/health").ends_with("ok\n"));
    assert!(get("/ready").ends_with("ready\n"));
    let page = get("/metrics");
    for line in
        ["claret_commands_total 5", "claret_connections 1", "claret_shard_keys{shard=\"1\"}"]
    {
        assert!(page.contains(line), "{line} is not in {page}");
    }
    assert!(page.contains("raft_engine"), "the log measures itself");
    assert!(get("/secrets").starts_with("HTTP/1.1 404"));
    server.stop();
}

#[test]
fn a_server_that_cannot_start_leaves_nothing_running() {
    let temp = tempfile::tempdir().unwrap();
    let first = serve(settings(temp.path()));
    let again = start(Options::resolve(settings(temp.path())).unwrap());
    let Err(reason) = again else { panic!("two servers in one directory") };
    assert!(reason.to_string().contains("another server"), "{reason}");
    let other = tempfile::tempdir().unwrap();
    let taken = Settings { port: Some(first.address().port()), ..settings(other.path()) };
    let Err(reason) = start(Options::resolve(taken.clone()).unwrap()) else {
        panic!("one port twice")
    };
    assert!(reason.to_string().contains("--port"), "{reason}");
    first.stop();
    // The directory is free: the failed start has released it.
    serve(taken).stop();
}
