//! The type in a running server: beside the built-in ones, in transactions, and after a kill.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

struct Server {
    child: Child,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

fn serve(dir: &Path) -> Server {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gauge-server"));
    command
        .args(["serve", "--port", "0", "--shards", "2", "--log-level", "warn", "--dir"])
        .arg(dir);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the program");
    let mut ready = String::new();
    let stdout = child.stdout.take().expect("its output");
    BufReader::new(stdout).read_line(&mut ready).expect("a line");
    let address = ready.split("ready on ").nth(1).and_then(|rest| rest.split(' ').next());
    let address = address.unwrap_or_else(|| panic!("{ready:?}")).to_owned();
    Server { child, address }
}

struct Client(BufReader<TcpStream>);

impl Client {
    fn of(server: &Server) -> Self {
        Self(BufReader::new(TcpStream::connect(&server.address).expect("a connection")))
    }

    /// The reply to a command, its items separated by spaces.
    fn ask(&mut self, command: &str) -> String {
        self.0.get_mut().write_all(format!("{command}\r\n").as_bytes()).expect("it is sent");
        self.reply()
    }

    fn reply(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a reply");
        let line = line.trim_end();
        match line.split_at(1) {
            ("*", count) => {
                let count = count.parse().expect("a number");
                (0..count).map(|_| self.reply()).collect::<Vec<_>>().join(" ")
            }
            ("$", "-1") => "nil".to_owned(),
            ("$", _) => {
                let mut text = String::new();
                self.0.read_line(&mut text).expect("a text");
                text.trim_end().to_owned()
            }
            (_, rest) => rest.to_owned(),
        }
    }
}

#[test]
fn it_is_a_type_like_the_built_in_ones() {
    let temp = tempfile::tempdir().expect("a folder");
    let mut server = serve(temp.path());
    let mut client = Client::of(&server);
    assert_eq!(client.ask("GAUGE.ADD g 5"), "OK");
    assert_eq!(client.ask("type g"), "gauge");
    assert_eq!(client.ask("set s text"), "OK");
    assert!(client.ask("gauge.add s 1").starts_with("WRONGTYPE"));
    assert!(client.ask("gauge.add g much").contains("not an integer"));
    assert!(client.ask("gauge.add g").contains("wrong number of arguments"));
    assert!(client.ask("command docs gauge.add").contains("Adds a measurement."));
    assert!(client.ask("scan 0 type gauge").ends_with(" g"));
    assert_eq!(client.ask("copy g h"), "1");
    assert_eq!(client.ask("rename h i"), "OK");
    assert_eq!(client.ask("eval \"return redis.call('gauge.show', KEYS[1])\" 1 i"), "1 5 5 5");

    // Transactions that have added and not committed keep nobody from adding.
    let mut others: Vec<Client> = (0..4).map(|_| Client::of(&server)).collect();
    for (number, other) in (0..).zip(&mut others) {
        assert_eq!(other.ask("txn begin"), "OK");
        assert_eq!(other.ask(&format!("gauge.add g {number}")), "OK");
    }
    assert_eq!(client.ask("gauge.add g -1"), "OK");
    for other in &mut others {
        let reply = other.ask("txn commit");
        assert!(!reply.contains("ABORT"), "{reply}");
    }
    assert_eq!(client.ask("gauge.show g"), "6 10 -1 5");

    server.child.kill().expect("it runs");
    server.child.wait().expect("it ends");
    let mut server = serve(temp.path());
    let mut client = Client::of(&server);
    assert_eq!(client.ask("gauge.show g"), "6 10 -1 5");
    assert_eq!(client.ask("save"), "OK");
    server.child.kill().expect("it runs");
    server.child.wait().expect("it ends");
    let server = serve(temp.path());
    assert_eq!(Client::of(&server).ask("gauge.show g"), "6 10 -1 5");
}
