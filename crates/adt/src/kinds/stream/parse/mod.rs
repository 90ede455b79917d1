//! Parsing of the words of stream commands into operations.

pub(super) mod reading;

use super::id::number;
use super::producers::{self, NAMES_MAX, PRODUCER_BYTES_MAX, REMEMBERED_S_MAX};
use super::{Bound, Claim, Delivered, Failure, Id, NewId, Once, References, Release, Task, Trim};
use crate::command::database::name_of;
use crate::command::syntax;
use crate::{Args, Blob, Command, ErrorReply, Merge, Op as AnyOp, Reply};
use std::sync::Arc;

/// Entries that `~` removes at most without `LIMIT`, as in Redis.
const LIMIT_DEFAULT: u64 = 10_000;

pub(super) fn stream(task: Task) -> AnyOp {
    AnyOp::Stream(Box::new(task))
}

pub(super) fn one(args: &Args<'_>, op: Task) -> Result<Command, ErrorReply> {
    Ok(Command::Single(args.blob(1)?, stream(op)))
}

/// A command about a group whose errors name the group and the key, which an operation does not know.
fn named(key: Blob, op: Task, name: fn(&str, &str) -> String) -> Command {
    let shown = key.clone();
    let merge = move |replies: Vec<Reply>| {
        about_group(&shown, replies.into_iter().next().unwrap_or(Reply::Nil), name)
    };
    Command::Multi { ops: vec![(key, stream(op))], merge: Merge::All(Arc::new(merge)) }
}

/// Gives the error for an absent group its text, from the names of the key and the group.
pub(super) fn about_group(key: &Blob, reply: Reply, name: fn(&str, &str) -> String) -> Reply {
    match reply {
        Reply::Error(error) if error.code() == "NOGROUP" => {
            let key = String::from_utf8_lossy(name_of(key));
            Reply::Error(ErrorReply::new("NOGROUP", name(&key, error.text())))
        }
        other => other,
    }
}

fn key_or_group(key: Blob, op: Task) -> Command {
    named(key, op, |key, group| format!("No such key '{key}' or consumer group '{group}'"))
}

fn group_of(key: Blob, op: Task) -> Command {
    named(key, op, |key, group| format!("No such consumer group '{group}' for key name '{key}'"))
}

fn id(args: &Args<'_>, at: usize) -> Result<Id, ErrorReply> {
    Id::parse(args.get(at).ok_or_else(ErrorReply::syntax)?, 0)
}

pub(super) fn ids(args: &Args<'_>, from: usize) -> Result<Vec<Id>, ErrorReply> {
    args.iter_from(from).map(|word| Id::parse(word, 0)).collect()
}

/// One end of a range: `-`, `+`, an identifier, or one that is left out with `(` in front.
fn end(args: &Args<'_>, at: usize, high: bool) -> Result<Id, ErrorReply> {
    let word = args.get(at).ok_or_else(ErrorReply::syntax)?;
    let seq = if high { u64::MAX } else { 0 };
    match word {
        b"-" => Ok(Id::MIN),
        b"+" => Ok(Id::MAX),
        [b'(', rest @ ..] => {
            let id = Id::parse(rest, seq)?;
            let (id, which) = if high { (id.previous(), "end") } else { (id.next(), "start") };
            id.ok_or_else(|| ErrorReply::err(format!("invalid {which} ID for the interval")))
        }
        word => Id::parse(word, seq),
    }
}

pub(super) fn range(args: &Args<'_>, back: bool) -> Result<Command, ErrorReply> {
    let (low, high) = if back { (3, 2) } else { (2, 3) };
    let (from, to) = (end(args, low, false)?, end(args, high, true)?);
    let mut count = None;
    let mut at = 4;
    while at < args.len() {
        if !args.is(at, "COUNT") {
            return Err(ErrorReply::syntax());
        }
        count = Some(u64::try_from(args.int(at + 1)?).unwrap_or(0));
        at += 2;
    }
    one(args, Task::Range { from, to, count, back })
}

/// Options in front of the identifier of `XADD`, and all those of `XTRIM`.
#[derive(Default)]
struct Trimming {
    to: Option<Bound>,
    roughly: bool,
    limit: Option<u64>,
    references: Option<References>,
    no_stream: bool,
    /// The producer, and its name for the entry if it gives one.
    once: Option<(Blob, Option<Blob>)>,
}

/// Option at `at` about deliveries that are pending, if it is one.
fn references(args: &Args<'_>, at: usize) -> Option<References> {
    match () {
        () if args.is(at, "KEEPREF") => Some(References::Keep),
        () if args.is(at, "DELREF") => Some(References::Delete),
        () if args.is(at, "ACKED") => Some(References::Acknowledged),
        () => None,
    }
}

impl Trimming {
    /// Takes the option at `at`; gives the place of the next word, or none if it is no option.
    fn take(
        &mut self,
        args: &Args<'_>,
        at: usize,
        adds: bool,
    ) -> Result<Option<usize>, ErrorReply> {
        let more = args.len() - at - 1;
        let by_len = args.is(at, "MAXLEN");
        if more > 0 && (by_len || args.is(at, "MINID")) {
            if self.to.is_some_and(|to| matches!(to, Bound::Len(_)) != by_len) {
                return Err(ErrorReply::err(
                    "syntax error, MAXLEN and MINID options at the same time are not compatible",
                ));
            }
            self.roughly = false;
            let mut value = at + 1;
            if more > 1 && (args.is(value, "~") || args.is(value, "=")) {
                self.roughly = args.is(value, "~");
                value += 1;
            }
            self.to = Some(if by_len {
                let len = args.int(value)?;
                let error = || ErrorReply::err("The MAXLEN argument must be >= 0.");
                Bound::Len(u64::try_from(len).map_err(|_| error())?)
            } else {
                Bound::From(id(args, value)?)
            });
            return Ok(Some(value + 1));
        }
        if more > 0 && args.is(at, "LIMIT") {
            let limit = args.int(at + 1)?;
            let error = || ErrorReply::err("The LIMIT argument must be >= 0.");
            self.limit = Some(u64::try_from(limit).map_err(|_| error())?);
            return Ok(Some(at + 2));
        }
        if let Some(option) = references(args, at) {
            if self.references.replace(option).is_some() {
                return Err(ErrorReply::syntax());
            }
            return Ok(Some(at + 1));
        }
        if adds && args.is(at, "NOMKSTREAM") {
            self.no_stream = true;
            return Ok(Some(at + 1));
        }
        if adds && more > 1 && args.is(at, "IDMP") {
            let named = (args.blob(at + 1)?, Some(args.blob(at + 2)?));
            self.adds_once(named)?;
            return Ok(Some(at + 3));
        }
        if adds && more > 0 && args.is(at, "IDMPAUTO") {
            self.adds_once((args.blob(at + 1)?, None))?;
            return Ok(Some(at + 2));
        }
        Ok(None)
    }

    fn adds_once(&mut self, named: (Blob, Option<Blob>)) -> Result<(), ErrorReply> {
        let option = if named.1.is_some() { "IDMP" } else { "IDMPAUTO" };
        if named.0.is_empty() {
            return Err(ErrorReply::err(format!("{option} requires a non-empty producer ID")));
        }
        if named.1.as_ref().is_some_and(|name| name.is_empty()) {
            return Err(ErrorReply::err(format!("{option} requires a non-empty idempotent ID")));
        }
        let words = std::iter::once(&named.0).chain(&named.1);
        if words.map(|word| word.len()).any(|len| len > PRODUCER_BYTES_MAX) {
            let text = format!("IDs of {option} have up to {PRODUCER_BYTES_MAX} bytes");
            return Err(ErrorReply::err(text));
        }
        if self.once.replace(named).is_some() {
            return Err(ErrorReply::err("IDMP/IDMPAUTO specified multiple times"));
        }
        Ok(())
    }

    fn finish(&self) -> Result<Option<Trim>, ErrorReply> {
        if self.limit.is_some() && self.to.is_none() {
            return Err(ErrorReply::err(
                "syntax error, LIMIT cannot be used without specifying a trimming strategy",
            ));
        }
        if self.limit.is_some() && !self.roughly {
            return Err(ErrorReply::err(
                "syntax error, LIMIT cannot be used without the special ~ option",
            ));
        }
        let limit = self.limit.unwrap_or(if self.roughly { LIMIT_DEFAULT } else { 0 });
        let references = self.references.unwrap_or_default();
        Ok(self.to.map(|to| Trim { to, roughly: self.roughly, limit, references }))
    }
}

fn new_id(word: &[u8]) -> Result<NewId, ErrorReply> {
    if let [ms @ .., b'-', b'*'] = word {
        return number(ms).map(NewId::Milli).ok_or_else(Id::invalid);
    }
    Id::parse(word, 0).map(NewId::Exact)
}

/// `XADD`; the form for the log adds under a name and an explicit identifier.
pub(super) fn add(args: &Args<'_>, is_told: bool) -> Result<Command, ErrorReply> {
    let mut options = Trimming::default();
    let mut at = 2;
    let id = loop {
        let Some(word) = args.get(at) else { return Err(ErrorReply::arity("xadd")) };
        if word == b"*" {
            break NewId::Auto;
        }
        match options.take(args, at, true)? {
            Some(next) => at = next,
            None => break new_id(word)?,
        }
    };
    let trim = options.finish()?;
    if options.once.is_some() && id != NewId::Auto && !is_told {
        let text = "IDMP/IDMPAUTO can be used only with auto-generated IDs";
        return Err(ErrorReply::err(text));
    }
    let fields: Vec<Blob> = args.iter_from(at + 1).map(Blob::new).collect();
    if fields.is_empty() || fields.len() % 2 == 1 {
        return Err(ErrorReply::arity("xadd"));
    }
    if id == NewId::Exact(Id::MIN) {
        return Err(ErrorReply::err("The ID specified in XADD must be greater than 0-0"));
    }
    let once = options.once.map(|(producer, name)| {
        let name = name.unwrap_or_else(|| producers::name_of(&fields));
        Once { producer, name }
    });
    one(args, Task::Add { id, creates: !options.no_stream, trim, once, fields })
}

/// The name of an entry that is added once.
pub(super) fn original(args: &Args<'_>) -> Result<Command, ErrorReply> {
    one(args, Task::Original(Once { producer: args.blob(2)?, name: args.blob(3)? }))
}

pub(super) fn configure(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let (mut remembered_s, mut most) = (None, None);
    if args.len() == 2 {
        return Err(ErrorReply::err("At least one parameter must be specified"));
    }
    let mut at = 2;
    while at < args.len() {
        let (option, place, max, unit) = match () {
            () if at + 1 == args.len() => return Err(ErrorReply::syntax()),
            () if args.is(at, "IDMP-DURATION") => {
                ("IDMP-DURATION", &mut remembered_s, REMEMBERED_S_MAX, "seconds")
            }
            () if args.is(at, "IDMP-MAXSIZE") => ("IDMP-MAXSIZE", &mut most, NAMES_MAX, "entries"),
            () => return Err(ErrorReply::syntax()),
        };
        let number = u64::try_from(args.int(at + 1)?).ok();
        *place = number.filter(|number| (1..=max).contains(number));
        if place.is_none() {
            let text = format!("{option} must be between 1 and {max} {unit}");
            return Err(ErrorReply::err(text));
        }
        at += 2;
    }
    one(args, Task::Configure { remembered_s, most })
}

pub(super) fn trim(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let mut options = Trimming::default();
    let mut at = 2;
    while at < args.len() {
        at = options.take(args, at, false)?.ok_or_else(ErrorReply::syntax)?;
    }
    let trim = options.finish()?.ok_or_else(|| {
        ErrorReply::err("syntax error, XTRIM must be called with a trimming strategy")
    })?;
    one(args, Task::Trim(trim))
}

pub(super) fn delete(args: &Args<'_>) -> Result<Command, ErrorReply> {
    one(args, Task::Delete(ids(args, 2)?))
}

/// `XDELEX`, and `XACKDEL` with the group in front of the options.
pub(super) fn forget(args: &Args<'_>, grouped: bool) -> Result<Command, ErrorReply> {
    let group = if grouped { Some(args.blob(2)?) } else { None };
    let mut at = if grouped { 3 } else { 2 };
    let mut chosen = None;
    while !args.is(at, "IDS") {
        let option = references(args, at).ok_or_else(ErrorReply::syntax)?;
        if chosen.replace(option).is_some() {
            return Err(ErrorReply::syntax());
        }
        at += 1;
    }
    let count = args.at_least(at + 1, 1, "Number of IDs must be a positive integer")?;
    let ids = ids(args, at + 2)?;
    if ids.len() as u64 != count {
        let text = "The `numids` parameter must match the number of arguments";
        return Err(ErrorReply::err(text));
    }
    one(args, Task::Forget { group, references: chosen.unwrap_or_default(), ids })
}

pub(super) fn set_id(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let (mut added, mut deleted) = (None, None);
    let mut at = 3;
    while at < args.len() {
        if at + 1 < args.len() && args.is(at, "ENTRIESADDED") {
            let error = || ErrorReply::err("entries_added must be positive");
            added = Some(u64::try_from(args.int(at + 1)?).map_err(|_| error())?);
        } else if at + 1 < args.len() && args.is(at, "MAXDELETEDID") {
            deleted = Some(id(args, at + 1)?);
        } else {
            return Err(ErrorReply::syntax());
        }
        at += 2;
    }
    one(args, Task::SetId { id: id(args, 2)?, added, deleted })
}

pub(super) fn acknowledge(args: &Args<'_>) -> Result<Command, ErrorReply> {
    one(args, Task::Ack(args.blob(2)?, ids(args, 3)?))
}

pub(super) fn pending(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let (key, group) = (args.blob(1)?, args.blob(2)?);
    if args.len() == 3 {
        return Ok(key_or_group(key, Task::Pending(group)));
    }
    let mut at = 3;
    let mut idle_ms = 0;
    if args.is(3, "IDLE") {
        idle_ms = u64::try_from(args.int(4)?).unwrap_or(0);
        at = 5;
    }
    if args.len() < at + 3 || args.len() > at + 4 {
        return Err(ErrorReply::syntax());
    }
    let count = u64::try_from(args.int(at + 2)?).unwrap_or(0);
    let (from, to) = (end(args, at, false)?, end(args, at + 1, true)?);
    let consumer = args.get(at + 3).map(Blob::new);
    let op = Task::ListPending { group, idle_ms, from, to, count, consumer };
    Ok(key_or_group(key, op))
}

/// A number of milliseconds of a claim; a negative one is 0.
fn millis(args: &Args<'_>, at: usize, what: &str, of: &str) -> Result<i64, ErrorReply> {
    let error = || ErrorReply::err(format!("Invalid {what} argument for {of}"));
    args.int(at).map_err(|_| error())
}

pub(super) fn claim(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let (key, group, consumer) = (args.blob(1)?, args.blob(2)?, args.blob(3)?);
    let min_idle_ms = millis(args, 4, "min-idle-time", "XCLAIM")?;
    let min_idle_ms = u64::try_from(min_idle_ms).unwrap_or(0);
    let mut how = Claim { min_idle_ms, ..Claim::default() };
    let mut at = 5;
    let mut ids = Vec::new();
    while let Some(id) = args.get(at).and_then(|word| Id::parse(word, 0).ok()) {
        ids.push(id);
        at += 1;
    }
    while at < args.len() {
        let more = args.len() - at - 1;
        let option = |name: &str| more > 0 && args.is(at, name);
        let invalid = |name: &str| format!("{name} option");
        if args.is(at, "FORCE") {
            how.force = true;
        } else if args.is(at, "JUSTID") {
            how.just_id = true;
        } else if option("IDLE") {
            let ms = millis(args, at + 1, &invalid("IDLE"), "XCLAIM")?;
            how.at = u64::try_from(ms).map_or(Delivered::Now, Delivered::Ago);
            at += 1;
        } else if option("TIME") {
            let ms = millis(args, at + 1, &invalid("TIME"), "XCLAIM")?;
            how.at = u64::try_from(ms).map_or(Delivered::Now, Delivered::At);
            at += 1;
        } else if option("RETRYCOUNT") {
            let count = millis(args, at + 1, &invalid("RETRYCOUNT"), "XCLAIM")?;
            how.count = u64::try_from(count).ok();
            at += 1;
        } else if option("LASTID") {
            how.last = Some(id(args, at + 1)?);
            at += 1;
        } else {
            let word = String::from_utf8_lossy(args.get(at).unwrap_or_default()).into_owned();
            return Err(ErrorReply::err(format!("Unrecognized XCLAIM option '{word}'")));
        }
        at += 1;
    }
    let op = Task::Claim { group, consumer, ids, how };
    Ok(key_or_group(key, op))
}

pub(super) fn auto_claim(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let (key, group, consumer) = (args.blob(1)?, args.blob(2)?, args.blob(3)?);
    let min_idle_ms = millis(args, 4, "min-idle-time", "XAUTOCLAIM")?;
    let min_idle_ms = u64::try_from(min_idle_ms).unwrap_or(0);
    let from = end(args, 5, false)?;
    let (mut count, mut just_id) = (100, false);
    let mut at = 6;
    while at < args.len() {
        if at + 1 < args.len() && args.is(at, "COUNT") {
            count = args.at_least(at + 1, 1, "COUNT must be > 0")?;
            at += 2;
        } else if args.is(at, "JUSTID") {
            just_id = true;
            at += 1;
        } else {
            return Err(ErrorReply::syntax());
        }
    }
    let op = Task::AutoClaim { group, consumer, min_idle_ms, from, count, just_id };
    Ok(key_or_group(key, op))
}

pub(super) fn release(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let (key, group) = (args.blob(1)?, args.blob(2)?);
    let failure = match () {
        () if args.is(3, "SILENT") => Failure::Silent,
        () if args.is(3, "FAIL") => Failure::Fail,
        () if args.is(3, "FATAL") => Failure::Fatal,
        () => return Err(ErrorReply::err("mode must be SILENT, FAIL, or FATAL")),
    };
    let mut how = Release { failure, count: None, force: false };
    let mut released = None;
    let mut at = 4;
    while at < args.len() {
        let more = args.len() - at - 1;
        if more > 0 && args.is(at, "IDS") {
            let count = args.at_least(at + 1, 1, "numids must be a positive integer")?;
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            if count > more - 1 {
                return Err(ErrorReply::err("number of IDs doesn't match numids"));
            }
            let words = args.iter_from(at + 2).take(count);
            released = Some(words.map(|word| Id::parse(word, 0)).collect::<Result<Vec<_>, _>>()?);
            at += 2 + count;
        } else if more > 0 && args.is(at, "RETRYCOUNT") {
            let error = || ErrorReply::err("Invalid RETRYCOUNT value, must be >= 0");
            how.count = Some(u64::try_from(args.int(at + 1)?).map_err(|_| error())?);
            at += 2;
        } else if args.is(at, "FORCE") {
            how.force = true;
            at += 1;
        } else {
            let word = String::from_utf8_lossy(args.get(at).unwrap_or_default()).into_owned();
            return Err(ErrorReply::err(format!("Unrecognized XNACK option '{word}'")));
        }
    }
    let Some(ids) = released else {
        return Err(ErrorReply::err("syntax error, expected IDS keyword"));
    };
    Ok(key_or_group(key, Task::Release { group, ids, how }))
}

/// A subcommand with a wrong number of words.
fn arity(container: &str, name: &str) -> ErrorReply {
    ErrorReply::arity(&format!("{container}|{name}"))
}

/// A subcommand with words that it does not take.
fn odd_subcommand(args: &Args<'_>, container: &str) -> ErrorReply {
    let word = String::from_utf8_lossy(args.get(1).unwrap_or_default()).into_owned();
    ErrorReply::err(format!(
        "unknown subcommand or wrong number of arguments for '{word}'. Try {container} HELP."
    ))
}

/// The identifier that a group begins behind: `$` is the stream's last one.
fn begin(args: &Args<'_>) -> Result<Option<Id>, ErrorReply> {
    if args.is(4, "$") { Ok(None) } else { id(args, 4).map(Some) }
}

/// `MKSTREAM` and `ENTRIESREAD` behind word number 4.
fn group_options(args: &Args<'_>, may_create: bool) -> Result<(bool, Option<u64>), ErrorReply> {
    let (mut creates, mut read) = (false, None);
    let mut at = 5;
    while at < args.len() {
        if may_create && args.is(at, "MKSTREAM") {
            creates = true;
            at += 1;
        } else if at + 1 < args.len() && args.is(at, "ENTRIESREAD") {
            let count = args.int(at + 1)?;
            if count < -1 {
                return Err(ErrorReply::err("value for ENTRIESREAD must be positive or -1"));
            }
            read = u64::try_from(count).ok();
            at += 2;
        } else {
            return Err(odd_subcommand(args, "XGROUP"));
        }
    }
    Ok((creates, read))
}

pub(super) fn group(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let named = |arity_min: usize, arity_max: usize, name: &str| {
        if (arity_min..=arity_max).contains(&args.len()) {
            Ok((args.blob(2)?, args.blob(3)?))
        } else {
            Err(arity("xgroup", name))
        }
    };
    if args.is(1, "HELP") && args.len() == 2 {
        return Ok(answered(syntax::help("xgroup", super::table::GROUP)));
    }
    if args.is(1, "CREATE") {
        let (key, group) = named(5, usize::MAX, "create")?;
        let (creates, read) = group_options(args, true)?;
        let op = Task::CreateGroup { group, id: begin(args)?, creates, read };
        return Ok(Command::Single(key, stream(op)));
    }
    if args.is(1, "SETID") {
        let (key, group) = named(5, usize::MAX, "setid")?;
        let (_, read) = group_options(args, false)?;
        let op = Task::MoveGroup { group, id: begin(args)?, read };
        return Ok(group_of(key, op));
    }
    if args.is(1, "DESTROY") {
        let (key, group) = named(4, 4, "destroy")?;
        return Ok(Command::Single(key, stream(Task::DestroyGroup(group))));
    }
    if args.is(1, "CREATECONSUMER") {
        let (key, group) = named(5, 5, "createconsumer")?;
        let op = Task::CreateConsumer(group, args.blob(4)?);
        return Ok(group_of(key, op));
    }
    if args.is(1, "DELCONSUMER") {
        let (key, group) = named(5, 5, "delconsumer")?;
        let op = Task::DeleteConsumer(group, args.blob(4)?);
        return Ok(group_of(key, op));
    }
    Err(ErrorReply::unknown_subcommand("XGROUP", args))
}

pub(super) fn info(args: &Args<'_>) -> Result<Command, ErrorReply> {
    if args.is(1, "HELP") && args.len() == 2 {
        return Ok(answered(syntax::help("xinfo", super::table::INFO)));
    }
    if args.is(1, "STREAM") {
        let op = match args.len() {
            3 => Task::Info,
            4 if args.is(3, "FULL") => Task::InfoFull(10),
            6 if args.is(3, "FULL") && args.is(4, "COUNT") => {
                Task::InfoFull(u64::try_from(args.int(5)?).unwrap_or(10))
            }
            0..3 => return Err(arity("xinfo", "stream")),
            _ => return Err(odd_subcommand(args, "XINFO")),
        };
        return Ok(Command::Single(args.blob(2)?, stream(op)));
    }
    if args.is(1, "GROUPS") {
        if args.len() != 3 {
            return Err(arity("xinfo", "groups"));
        }
        return Ok(Command::Single(args.blob(2)?, stream(Task::InfoGroups)));
    }
    if args.is(1, "CONSUMERS") {
        if args.len() != 4 {
            return Err(arity("xinfo", "consumers"));
        }
        return Ok(group_of(args.blob(2)?, Task::InfoConsumers(args.blob(3)?)));
    }
    Err(ErrorReply::unknown_subcommand("XINFO", args))
}

/// A command whose reply is already known.
fn answered(reply: Reply) -> Command {
    Command::Multi { ops: Vec::new(), merge: Merge::With(Arc::new(move |_| reply.clone())) }
}
