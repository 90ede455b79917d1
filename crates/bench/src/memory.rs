//! Memory per key: resident memory of the process and the server's own account, beside Redis.

use crate::load::resp;
use crate::report::{Report, fields, number, ratio, rounded, text};
use crate::servers::control::Control;
use crate::servers::process::{Beside, Server};
use crate::stop;
use crate::sweep::progress;
use clap::Args;
use serde_json::{Map, Value};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Columns of the printed table.
pub const COLUMNS: [&str; 11] = [
    "data",
    "server",
    "keys",
    "resident_mb",
    "resident_bytes_per_key",
    "resident_ratio",
    "used_bytes_per_key",
    "used_ratio",
    "dataset_bytes_per_key",
    "log_bytes_per_key",
    "load_s",
];

/// Options of `memory`.
#[derive(Clone, Debug, Args)]
pub struct MemoryArgs {
    /// Also measure this server; by default redis if it is installed.
    #[arg(long, value_enum)]
    pub vs: Option<Beside>,
    /// Part of the keys to write: 1 for a million strings, a hundred thousand hashes, ten
    /// thousand sets and a million entries of streams, each of which counts as a key.
    #[arg(long, default_value_t = 1.0, value_parser = parse_scale)]
    pub scale: f64,
    /// When a write is acknowledged: once it is flushed to disk, once it is written, or at once.
    #[arg(long, default_value = "always", value_parser = ["always", "everysec", "none"])]
    pub durability: String,
    /// Seconds to settle between the last write and the measurement; Claret's own account is up to
    /// a second old.
    #[arg(long, default_value_t = 3.0, value_parser = crate::args::parse_seconds)]
    pub settle: f64,
    /// Parent directory of the servers' data directories.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    pub dir: PathBuf,
    /// Print one JSON document instead of a table.
    #[arg(long)]
    pub json: bool,
}

fn parse_scale(text: &str) -> Result<f64, String> {
    let scale = text.parse().ok().filter(|scale| *scale > 0.0 && *scale <= 100.0);
    scale.ok_or_else(|| "a scale is a number above 0 and up to 100".to_owned())
}

/// Kind of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Data {
    /// Strings of 32 bytes.
    Strings,
    /// Hashes of 10 fields with values of 16 bytes.
    Hashes,
    /// Sets of 100 members of 16 bytes.
    Sets,
    /// Entries of two fields with values of 16 bytes, in a thousand streams.
    Streams,
}

const ALL: [Data; 4] = [Data::Strings, Data::Hashes, Data::Sets, Data::Streams];

impl Data {
    fn name(self) -> &'static str {
        match self {
            Self::Strings => "strings of 32 bytes",
            Self::Hashes => "hashes of 10 fields",
            Self::Sets => "sets of 100 members",
            Self::Streams => "entries of streams",
        }
    }

    fn keys(self, scale: f64) -> u64 {
        let full = match self {
            Self::Strings | Self::Streams => 1_000_000.0,
            Self::Hashes => 100_000.0,
            Self::Sets => 10_000.0,
        };
        (full * scale).ceil() as u64
    }

    /// Command that writes a key of 16 bytes.
    fn command(self, key: u64) -> Vec<u8> {
        let mut words = vec![String::new(), format!("key:{key:012}")];
        match self {
            Self::Strings => {
                words[0] = "SET".to_owned();
                words.push(format!("value:{key:026}"));
            }
            Self::Hashes => {
                words[0] = "HSET".to_owned();
                for field in 0..10 {
                    words.push(format!("field:{field:02}"));
                    words.push(format!("v{:015}", key * 10 + field));
                }
            }
            Self::Sets => {
                words[0] = "SADD".to_owned();
                words.extend((0..100).map(|member| format!("m{:015}", key * 100 + member)));
            }
            Self::Streams => {
                words[0] = "XADD".to_owned();
                words[1] = format!("key:{:012}", key % 1000);
                words.push("*".to_owned());
                for field in 0..2 {
                    words.push(format!("field:{field:02}"));
                    words.push(format!("v{:015}", key * 2 + field));
                }
            }
        }
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let mut out = Vec::new();
        resp::command(&mut out, &words);
        out
    }
}

/// Memory of a server, in bytes, by what it is.
#[derive(Clone, Copy, Debug)]
struct Seen {
    resident: u64,
    used: u64,
    dataset: u64,
    /// Memory of the log, as far as the server tells it.
    log: Option<u64>,
}

impl Seen {
    fn now(server: &Server) -> io::Result<Self> {
        let info = Control::connect(server.address())?.info(&["memory"])?;
        let bytes = |name: &str| info.get(name).and_then(|value| value.parse().ok());
        Ok(Self {
            resident: server.resident_bytes(),
            used: bytes("used_memory").unwrap_or(0),
            dataset: bytes("used_memory_dataset").unwrap_or(0),
            log: bytes("used_memory_log"),
        })
    }
}

/// Fills a new server and measures it.
fn measure(args: &MemoryArgs, data: Data, name: &str, server: &Server) -> io::Result<Fields> {
    let keys = data.keys(args.scale);
    let settle = || stop::sleep(Duration::from_secs_f64(args.settle));
    settle()?;
    let before = Seen::now(server)?;
    let mut control = Control::connect(server.address())?;
    let began = std::time::Instant::now();
    control.load((0..keys).map(|key| data.command(key)))?;
    let load_s = began.elapsed().as_secs_f64();
    settle()?;
    let after = Seen::now(server)?;
    let per_key =
        |before: u64, after: u64| rounded(after.saturating_sub(before) as f64 / keys as f64);
    let mut row = fields([
        ("data", Value::from(data.name())),
        ("server", Value::from(name)),
        ("keys", Value::from(keys)),
        ("durability", Value::from(args.durability.as_str())),
        ("resident_mb", rounded(after.resident as f64 / 1e6)),
        ("resident_bytes_per_key", per_key(before.resident, after.resident)),
        ("used_bytes_per_key", per_key(before.used, after.used)),
        ("dataset_bytes_per_key", per_key(before.dataset, after.dataset)),
        ("load_s", rounded(load_s)),
    ]);
    if let Some((before, after)) = before.log.zip(after.log) {
        row.insert("log_bytes_per_key".into(), per_key(before, after));
    }
    Ok(row)
}

type Fields = Map<String, Value>;

/// Adds what a row takes relative to the other server's row of the same data.
fn compare(row: &mut Fields, other: &Fields) {
    for (name, field) in
        [("resident_ratio", "resident_bytes_per_key"), ("used_ratio", "used_bytes_per_key")]
    {
        row.insert(name.into(), ratio(number(row, field), number(other, field)));
    }
}

/// Runs the bench.
///
/// # Errors
/// A server cannot be started or fails.
pub fn run(args: &MemoryArgs, program: &Path) -> io::Result<Report> {
    let mut report = Report::default();
    let bar = progress(2 * ALL.len());
    for data in ALL {
        // One server at a time: the next one begins with memory that this one has given back.
        let mut other = None;
        let redis = Server::redis_beside(args.vs, &args.durability, &args.dir, &mut report.notes)?;
        if let Some(redis) = redis {
            bar.set_message(format!("redis, {}", data.name()));
            let row = measure(args, data, "redis", &redis)?;
            report.rows.push(row.clone());
            other = Some(row);
        }
        bar.inc(1);
        bar.set_message(format!("claret, {}", data.name()));
        let server = Server::shipped(program, &["--durability", &args.durability], &args.dir)?;
        let mut row = measure(args, data, "claret", &server)?;
        if let Some(other) = &other {
            compare(&mut row, other);
            let name = format!("claret_over_redis {}", text(&row, "data"));
            report.ratios.insert(name, row["resident_ratio"].clone());
        }
        report.rows.push(row);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::resp::{ClientReply, ReplyDecoder, ReplyLimits};

    #[test]
    fn commands_write_what_the_rows_say() {
        for (data, words, last) in [
            (Data::Strings, 3, 32),
            (Data::Hashes, 22, 16),
            (Data::Sets, 102, 16),
            (Data::Streams, 7, 16),
        ] {
            let command = data.command(7);
            // A command has the form of a reply that is a list.
            let (decoded, len) = ReplyDecoder::new()
                .next(&command, &ReplyLimits::default())
                .expect("a list")
                .expect("all of it");
            assert_eq!(len, command.len());
            let ClientReply::Array(list) = decoded else { panic!("{data:?}") };
            assert_eq!(list.len(), words);
            assert!(matches!(&list[1], ClientReply::Bulk(key) if key[..] == *b"key:000000000007"));
            assert!(matches!(&list[words - 1], ClientReply::Bulk(bytes) if bytes.len() == last));
        }
        assert_eq!(Data::Sets.keys(1e-9), 1);
        assert_eq!(ALL.map(|data| data.keys(1.0)), [1_000_000, 100_000, 10_000, 1_000_000]);
    }

    #[test]
    fn ratios_are_the_memory_over_the_other_servers() {
        let row = |bytes: f64| fields([("resident_bytes_per_key", bytes.into())]);
        let mut ours = row(150.0);
        compare(&mut ours, &row(100.0));
        assert_eq!((&ours["resident_ratio"], &ours["used_ratio"]), (&1.5.into(), &Value::Null));
    }
}
