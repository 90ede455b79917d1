//! `claret backup` and `claret restore`: save all data as of one moment into a file, and restore
//! it.
//!
//! The servers make the cut and send it through a command that any Redis client could use:
//! `BACKUP`. Any machine of a cluster may be addressed.

use crate::serve::ServeArgs;
use crate::target::Target;
use chrono::DateTime;
use clap::Args;
use client::Client;
use client::{ClientReply, Command};
use engine::ids::ShardId;
use server::data::backup::restore::restore;
use server::data::backup::{Backup, Contents, inspect};
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;
use wire::backup::About;

/// Maximum number of attempts at a backup.
const ATTEMPTS: u32 = 20;
/// Pause before the next attempt.
const PAUSE: Duration = Duration::from_millis(500);
/// Pieces that are requested concurrently, each from another shard.
const PIECES: usize = 8;
/// Interval of progress messages.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// Arguments of `claret backup`.
#[derive(Args, Debug)]
pub struct BackupArgs {
    /// File to write; it must not exist yet.
    file: PathBuf,
    #[command(flatten)]
    target: Target,
    /// Read a backup instead of taking one, and describe its contents.
    #[arg(long, conflicts_with = "url")]
    verify: bool,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// Arguments of `claret restore`: those of `claret serve`, which define the data directory to
/// create.
#[derive(Args, Debug)]
pub struct RestoreArgs {
    /// File that `claret backup` has written.
    file: PathBuf,
    /// Give the new cluster the name of the backup's cluster, none of whose machines will ever run
    /// again.
    #[arg(long)]
    same_name: bool,
    #[command(flatten)]
    serve: ServeArgs,
}

type Result<T> = std::result::Result<T, String>;

/// Reason for a failed attempt.
enum Failure {
    /// A new attempt may succeed.
    Again(String),
    /// A new attempt would fail too.
    For(String),
}

impl From<server::data::backup::BackupError> for Failure {
    fn from(error: server::data::backup::BackupError) -> Self {
        Self::For(error.to_string())
    }
}

/// Runs `claret backup`.
pub fn main(args: &BackupArgs) -> ExitCode {
    let done = if args.verify { verify(args) } else { take(args) };
    crate::end(done)
}

/// Runs `claret restore`.
pub fn restore_main(args: &RestoreArgs) -> ExitCode {
    let options = match args.serve.options() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("claret: {error}");
            return ExitCode::from(2);
        }
    };
    server::raise_descriptor_limit();
    let now_s = now_ms() / 1000;
    let done = restore(&args.file, &options, args.same_name, now_s);
    crate::end(done.map_err(|error| error.to_string()).map(|contents| {
        let (dir, keys) = (options.dir.display(), contents.keys);
        let who = match &options.cluster {
            None => "the server".to_owned(),
            Some(cluster) => format!("machine {} of '{}'", cluster.own.0, cluster.name),
        };
        format!("{dir}: {keys} keys, as of {}; ready for {who}\n", when(contents.about.taken_ms))
    }))
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

fn verify(args: &BackupArgs) -> Result<String> {
    let contents = inspect(&args.file).map_err(|error| error.to_string())?;
    Ok(if args.json { json(&args.file, &contents) } else { page(&args.file, &contents) })
}

fn take(args: &BackupArgs) -> Result<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let contents = runtime.block_on(async {
        // Registered first: a signal before its registration ends the process at once.
        let stops = signal(SignalKind::interrupt());
        let mut stops = stops.map_err(|error| format!("signals cannot be received: {error}"))?;
        let client = args.target.connect().await?;
        take_from(&client, &args.file, &mut stops).await
    })?;
    Ok(if args.json { json(&args.file, &contents) } else { page(&args.file, &contents) })
}

/// Takes a backup, with a new attempt if a leader changes meanwhile.
async fn take_from(client: &Client, file: &Path, stops: &mut Signal) -> Result<Contents> {
    let mut why = String::new();
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            eprintln!("trying again: {why}");
            tokio::time::sleep(PAUSE).await;
        }
        match attempt_to(client, file, stops).await {
            // The file is read back: a backup that cannot be read is no backup.
            Ok(()) => return inspect(file).map_err(|error| error.to_string()),
            Err(Failure::Again(reason)) => why = reason,
            Err(Failure::For(reason)) => return Err(reason),
        }
    }
    Err(format!("no backup after {ATTEMPTS} attempts; the last error: {why}"))
}

async fn attempt_to(
    client: &Client,
    file: &Path,
    stops: &mut Signal,
) -> std::result::Result<(), Failure> {
    // Writes must not stop for a backup that has no place.
    Backup::check_new(file)?;
    let cut = begin(client).await?;
    let fetched = fetch_into(client, &cut, file, stops).await;
    // If this request is lost, the servers drop the cut after a time-out.
    let end = Command::new("BACKUP").arg("END").arg(cut.number);
    let _ = client.send::<ClientReply>(end).await;
    fetched?.finish()?;
    Ok(())
}

/// Fetches everything into a temporary file, unless interrupted.
async fn fetch_into(
    client: &Client,
    cut: &Cut,
    file: &Path,
    stops: &mut Signal,
) -> std::result::Result<Backup, Failure> {
    let mut backup = Backup::create(file, &cut.about)?;
    tokio::select! {
        fetched = fetch(client, cut, &mut backup) => fetched?,
        Some(()) = stops.recv() => return Err(Failure::For("interrupted; there is no backup".to_owned())),
    }
    Ok(backup)
}

/// A cut that the servers have made.
struct Cut {
    number: i64,
    about: About,
    /// Shards of the cut, with their numbers of keys.
    shards: BTreeMap<u16, u64>,
}

async fn ask(client: &Client, command: Command) -> std::result::Result<ClientReply, Failure> {
    client.send::<ClientReply>(command).await.map_err(|error| {
        let text = error.to_string();
        let passes = ["TRYAGAIN", "NOCUT", "INDEFINITE", "BUSY", "lost its leader"];
        if passes.iter().any(|what| text.contains(what)) {
            Failure::Again(text)
        } else {
            Failure::For(text)
        }
    })
}

async fn begin(client: &Client) -> std::result::Result<Cut, Failure> {
    let reply = ask(client, Command::new("BACKUP").arg("BEGIN")).await?;
    let cut = read_cut(reply);
    cut.ok_or_else(|| Failure::For("the server's reply to BACKUP BEGIN is invalid".to_owned()))
}

fn read_cut(reply: ClientReply) -> Option<Cut> {
    let ClientReply::Array(parts) = reply else { return None };
    let [number, held_us, cluster, map, shards] = <[ClientReply; 5]>::try_from(parts).ok()?;
    let (ClientReply::Int(number), ClientReply::Int(held_us)) = (number, held_us) else {
        return None;
    };
    let text = |reply| match reply {
        ClientReply::Bulk(bytes) => String::from_utf8(bytes.to_vec()).ok(),
        _ => None,
    };
    let ClientReply::Array(told) = shards else { return None };
    let mut shards = BTreeMap::new();
    for shard in told {
        let ClientReply::Array(pair) = shard else { return None };
        let [ClientReply::Int(shard), ClientReply::Int(keys)] = pair[..] else { return None };
        shards.insert(u16::try_from(shard).ok()?, u64::try_from(keys).ok()?);
    }
    let about = About {
        taken_ms: now_ms(),
        held_us: u64::try_from(held_us).ok()?,
        cluster: text(cluster)?,
        map: text(map)?,
        written_by: env!("CARGO_PKG_VERSION").to_owned(),
        shards: u16::try_from(shards.len()).ok()?,
    };
    Some(Cut { number, about, shards })
}

/// Fetches the states of all shards, a piece of each in turn.
async fn fetch(
    client: &Client,
    cut: &Cut,
    backup: &mut Backup,
) -> std::result::Result<(), Failure> {
    let mut progress = Progress::new(cut);
    let mut left: BTreeMap<u16, u64> = cut.shards.keys().map(|shard| (*shard, 0)).collect();
    let mut next = 0;
    while !left.is_empty() {
        let after = left.range(next..).take(PIECES);
        let chosen: Vec<(u16, u64)> = after.map(|(shard, piece)| (*shard, *piece)).collect();
        next = chosen.last().map_or(0, |(shard, _)| shard + 1);
        let mut pieces = JoinSet::new();
        for (shard, piece) in chosen {
            let read = Command::new("BACKUP").arg("READ").arg(cut.number).arg(shard).arg(piece);
            let client = client.clone();
            pieces.spawn(async move { (shard, ask(&client, read).await) });
        }
        while let Some(done) = pieces.join_next().await {
            let (shard, reply) = done.map_err(|error| Failure::For(error.to_string()))?;
            let (bytes, last) = read_piece(reply?).ok_or_else(|| {
                Failure::For("the server's reply to BACKUP READ is invalid".to_owned())
            })?;
            progress.took(bytes.len() as u64);
            backup.piece(ShardId(shard), bytes)?;
            if last {
                left.remove(&shard);
                progress.ended();
            } else if let Some(piece) = left.get_mut(&shard) {
                *piece += 1;
            }
        }
    }
    progress.done();
    Ok(())
}

fn read_piece(reply: ClientReply) -> Option<(Vec<u8>, bool)> {
    let ClientReply::Array(parts) = reply else { return None };
    let [ClientReply::Bulk(bytes), ClientReply::Int(last)] = &parts[..] else { return None };
    Some((bytes.to_vec(), *last == 1))
}

/// Progress of a backup on standard error.
struct Progress {
    bytes: u64,
    shards: usize,
    ended: usize,
    began: Instant,
    told: Instant,
    /// Whether to overwrite a single line.
    on_line: bool,
}

impl Progress {
    fn new(cut: &Cut) -> Self {
        let (keys, shards) = (cut.shards.values().sum::<u64>(), cut.shards.len());
        let held_ms = cut.about.held_us as f64 / 1000.0;
        eprintln!("{keys} keys in {shards} shards; writes waited for {held_ms:.1} ms");
        let on_line = std::io::stderr().is_terminal();
        let now = Instant::now();
        Self { bytes: 0, shards, ended: 0, began: now, told: now, on_line }
    }

    fn took(&mut self, bytes: u64) {
        self.bytes += bytes;
        if self.told.elapsed() >= TELL_EVERY {
            self.told = Instant::now();
            self.tell();
        }
    }

    fn ended(&mut self) {
        self.ended += 1;
    }

    fn tell(&self) {
        let mib = self.bytes as f64 / f64::from(1 << 20);
        let rate = mib / self.began.elapsed().as_secs_f64().max(0.001);
        let (ended, shards) = (self.ended, self.shards);
        let (before, after) = if self.on_line { ("\r", "  ") } else { ("", "\n") };
        eprint!("{before}{mib:.1} MiB, {rate:.0} MiB/s, {ended} of {shards} shards{after}");
    }

    fn done(&self) {
        self.tell();
        if self.on_line {
            eprintln!();
        }
    }
}

/// Time of a backup, in UTC.
fn when(taken_ms: u64) -> String {
    let taken = i64::try_from(taken_ms / 1000).ok();
    let taken = taken.and_then(|seconds| DateTime::from_timestamp(seconds, 0));
    taken.map_or_else(|| format!("{taken_ms} ms after 1970"), |taken| taken.to_string())
}

fn page(file: &Path, contents: &Contents) -> String {
    let Contents { about, bytes, keys, expiring, types, requests, .. } = contents;
    let of = match about.cluster.as_str() {
        "" => "a standalone server".to_owned(),
        name => format!("the cluster '{name}'"),
    };
    let types: Vec<String> = types.iter().map(|(name, count)| format!("{count} {name}")).collect();
    let types = if types.is_empty() { "none".to_owned() } else { types.join(", ") };
    let (held_ms, mib) = (about.held_us as f64 / 1000.0, *bytes as f64 / f64::from(1 << 20));
    format!(
        "backup    {}\nof        {of}, {} shards\ntaken     {}\nwaited    {held_ms:.1} ms\n\
         size      {mib:.1} MiB\nkeys      {keys}, {expiring} of them expire\ntypes     {types}\n\
         requests  {requests} remembered\n",
        file.display(),
        about.shards,
        when(about.taken_ms),
    )
}

fn json(file: &Path, contents: &Contents) -> String {
    let Contents { about, bytes, keys, expiring, types, requests, .. } = contents;
    let document = serde_json::json!({
        "file": file.display().to_string(),
        "cluster": about.cluster,
        "map": about.map,
        "shards": about.shards,
        "taken_ms": about.taken_ms,
        "held_us": about.held_us,
        "written_by": about.written_by,
        "bytes": bytes,
        "keys": keys,
        "expiring": expiring,
        "types": types,
        "requests": requests,
    });
    format!("{document:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_dates() {
        let day_ms = 86_400_000;
        assert_eq!(when(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(when(11_016 * day_ms), "2000-02-29 00:00:00 UTC");
        assert_eq!(when(20_820 * day_ms + 3_723_999), "2027-01-02 01:02:03 UTC");
    }

    #[test]
    fn what_is_no_cut_is_known() {
        assert!(read_cut(ClientReply::Ok).is_none());
        assert!(read_cut(ClientReply::Array(vec![ClientReply::Int(1)])).is_none());
        let shard = ClientReply::Array(vec![ClientReply::Int(0), ClientReply::Int(7)]);
        let text = |text: &str| ClientReply::Bulk(text.as_bytes().into());
        let numbers = [ClientReply::Int(5), ClientReply::Int(900)];
        let rest = [text("shop"), text(""), ClientReply::Array(vec![shard])];
        let reply = ClientReply::Array(numbers.into_iter().chain(rest).collect());
        let cut = read_cut(reply).unwrap();
        assert_eq!((cut.number, cut.about.shards, cut.shards[&0]), (5, 1, 7));
        assert_eq!((cut.about.cluster.as_str(), cut.about.held_us), ("shop", 900));
    }
}
