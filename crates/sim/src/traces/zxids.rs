//! Positions of the changes of a session in the log, read from the bytes on the disk without asking
//! the server. An answer contains the position; a request without an answer may have changed
//! something all the same.

use crate::clients::errand::request_of;
use crate::machine::build::Build;
use crate::machine::disk::Disk;
use check::coordination::{History, Session, code};
use engine::coordination::SpreadStep;
use engine::coordination::service::Command;
use engine::coordination::{Ask, Write, Zxid};
use engine::entry::{EntryCodec, LogRecord};
use engine::ids::{ShardId, TxnId};
use raft::eraftpb::EntryType;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Change in the log.
pub type Logged = (i64, Command);

/// All changes of the coordination service at a shard, in order.
pub fn changes(disk: &Disk, of: ShardId) -> Result<Vec<Logged>, String> {
    let mut changes = Vec::new();
    let mut last = Zxid::default();
    let mut asks: BTreeMap<TxnId, Command> = BTreeMap::new();
    for (shard, raft_entry) in disk.archive() {
        let is_change = raft_entry.get_entry_type() != EntryType::EntryNormal;
        if shard != of || raft_entry.data.is_empty() || is_change {
            continue;
        }
        let entry = Build::default().decode(&raft_entry.data);
        let entry = entry.map_err(|_| format!("entry {} does not read back", raft_entry.index))?;
        let (first, spacing) = (entry.ts, entry.spacing());
        for (index, record) in entry.records.into_iter().enumerate() {
            let ts = spacing.ts_of(first, index);
            for command in commands(record, &mut asks) {
                last = Zxid::after(last.max(command.after), ts);
                changes.push((last.0, command));
            }
        }
    }
    Ok(changes)
}

/// Changes that are applied at a record. Requests sent ahead are in the log before, and are kept
/// until they are settled.
fn commands(record: LogRecord, asks: &mut BTreeMap<TxnId, Command>) -> Vec<Command> {
    match record {
        LogRecord::Coordinate(command) => vec![*command],
        LogRecord::Propose(group) => {
            for unit in &group.units {
                if let Some(Ask::Write(command)) = unit.ask.as_deref() {
                    asks.insert(group.stream.unit(unit.seq), command.clone());
                }
            }
            Vec::new()
        }
        LogRecord::Settle { stream, units } => {
            let taken = units.into_iter().filter_map(|(seq, place)| {
                asks.remove(&stream.unit(seq)).filter(|_| place.is_some())
            });
            taken.collect()
        }
        _ => Vec::new(),
    }
}

/// Gives every requested change its position in the log, if it has one, and finds the sessions that
/// the service has ended and all unexplained changes.
pub fn stamp(history: &mut History, disk: &Disk, shard: ShardId) -> Result<(), String> {
    let mut of: BTreeMap<i64, VecDeque<Logged>> = BTreeMap::new();
    for (zxid, command) in changes(disk, shard)? {
        let session = command.session.0;
        match command.write {
            Write::Open { .. } | Write::Spread(_) => {}
            // The service has no identity when it ends a session.
            Write::Close if command.identities.is_empty() => history.ends.push((session, zxid)),
            _ => of.entry(session).or_default().push_back((zxid, command)),
        }
    }
    stamp_sessions(history, of);
    Ok(())
}

/// Gives the requests of each session their positions among the session's changes in the log.
fn stamp_sessions(history: &mut History, mut of: BTreeMap<i64, VecDeque<Logged>>) {
    for session in &mut history.sessions {
        let logged = of.remove(&session.id).unwrap_or_default();
        let strays = stamp_session(session, logged);
        history.strays.extend(strays.into_iter().map(|(zxid, _)| (session.id, zxid)));
    }
}

/// Stamps one shard of a tree over several shards, without the requests that end sessions. A
/// session at several shards begins to end before it ends. A joint change is at the position where
/// it was decided, also if this shard has voted against it (`votes`).
pub fn stamp_part(history: &mut History, changes: Vec<Logged>, votes: Option<&BTreeSet<i64>>) {
    let is_vote = |zxid| votes.is_some_and(|votes| votes.contains(&zxid));
    let changes = with_joints(changes, is_vote);
    let mut ends: BTreeMap<i64, i64> = BTreeMap::new();
    let mut closings: BTreeMap<i64, i64> = BTreeMap::new();
    let mut closed = BTreeSet::new();
    for (zxid, Command { session, identities, write, .. }) in &changes {
        match write {
            Write::Close => {
                closings.entry(session.0).or_insert(*zxid);
                closed.extend((!identities.is_empty()).then_some(session.0));
            }
            Write::Spread(SpreadStep::Depart { .. }) => {
                closings.entry(session.0).or_insert(*zxid);
            }
            Write::Spread(SpreadStep::Finish | SpreadStep::Gone) => {
                ends.entry(session.0).or_insert(*zxid);
            }
            _ => {}
        }
    }
    for (session, zxid) in closings {
        match ends.get(&session) {
            Some(_) => history.closings.push((session, zxid)),
            None => drop(ends.insert(session, zxid)),
        }
    }
    history.ends.extend(ends);
    let is_asked = |(_, command): &Logged| {
        !matches!(command.write, Write::Open { .. } | Write::Close | Write::Reap | Write::Spread(_))
    };
    let mut of: BTreeMap<i64, VecDeque<Logged>> = BTreeMap::new();
    for logged in changes.into_iter().filter(is_asked) {
        of.entry(logged.1.session.0).or_default().push_back(logged);
    }
    history.sessions.iter_mut().for_each(|s| s.closed = closed.contains(&s.id));
    stamp_sessions(history, of);
}

/// Parts of joint changes, where they are applied.
fn with_joints(mut changes: Vec<Logged>, is_vote: impl Fn(i64) -> bool) -> Vec<Logged> {
    let mut prepared = BTreeMap::new();
    for (zxid, Command { session, write, .. }) in &mut changes {
        match write {
            Write::Spread(SpreadStep::Prepare { id, changes, .. }) => {
                prepared.insert((*session, *id), Write::Multi(changes.clone()));
            }
            Write::Spread(SpreadStep::Decide { id, commit }) if *commit || is_vote(*zxid) => {
                if let Some(part) = prepared.remove(&(*session, *id)) {
                    *write = part;
                }
            }
            _ => {}
        }
    }
    changes
}

/// Change that a session has requested.
struct Sought {
    connection: usize,
    place: usize,
    /// Number of the answer, if there was one; the change is in the log unless the session had
    /// ended.
    answered: Option<i64>,
    ended: bool,
    /// Number that a later connection of the session was told first: the change did not come after
    /// it.
    until: i64,
}

fn sought(session: &Session) -> Vec<Vec<Sought>> {
    let mut all = Vec::new();
    let mut until = i64::MAX;
    for (c, connection) in session.connections.iter().enumerate().rev() {
        let exchanges = connection.exchanges().enumerate();
        let writes = exchanges.filter(|(_, (asked, _))| asked.request.is_write());
        let sought = writes.map(|(place, (_, answered))| Sought {
            connection: c,
            place,
            answered: answered.map(|(_, zxid, _)| zxid),
            ended: answered.is_some_and(|(.., a)| *a == Err(code::SESSION_EXPIRED)),
            until,
        });
        all.push(sought.collect());
        let told = connection.exchanges().filter_map(|(_, answered)| answered);
        until = told.map(|(_, zxid, _)| zxid).fold(until, i64::min);
    }
    all.reverse();
    all
}

/// Finds the requests that are in the log. Returns the changes that no request explains.
fn stamp_session(session: &mut Session, logged: VecDeque<Logged>) -> Vec<Logged> {
    let sought = sought(session);
    let logged = Vec::from(logged);
    let mut taken = Vec::new();
    // A request that was sent twice, on two connections, may be in the log once. Which of the two
    // it was is unknown: the one that fits the session's answers, if one does.
    let mut explains = |in_time| explain(session, &sought, &logged, in_time, &mut taken);
    let strays = if explains(true) || explains(false) {
        Vec::new()
    } else {
        taken.clear();
        take_what_fits(session, &sought, &logged, &mut taken)
    };
    for (connection, place, zxid) in taken {
        session.connections[connection].asked[place].zxid = Some(zxid);
    }
    strays
}

fn fits(session: &Session, sought: &Sought, (zxid, command): &Logged) -> bool {
    if let Some(answered) = sought.answered {
        return answered == *zxid;
    }
    let asked = &session.connections[sought.connection].asked[sought.place];
    request_of(&command.write).as_ref() == Some(&asked.request)
}

/// Explains the log by the requests of the connections, one after the other, each up to some
/// request: then no request is missing whose successor is present.
fn explain(
    session: &Session,
    sought: &[Vec<Sought>],
    logged: &[Logged],
    in_time: bool,
    taken: &mut Vec<(usize, usize, i64)>,
) -> bool {
    let Some((first, rest)) = sought.split_first() else { return logged.is_empty() };
    let must = first.iter().rposition(|s| s.answered.is_some() && !s.ended).map_or(0, |i| i + 1);
    let fits = |s: &Sought, l: &Logged| fits(session, s, l) && (l.0 <= s.until || !in_time);
    let fitting = first.iter().zip(logged).take_while(|(s, l)| fits(s, l)).count();
    let before = taken.len();
    for count in (must..=fitting).rev() {
        let these = first[..count].iter().zip(logged);
        taken.extend(these.map(|(s, (zxid, _))| (s.connection, s.place, *zxid)));
        if explain(session, rest, &logged[count..], in_time, taken) {
            return true;
        }
        taken.truncate(before);
    }
    false
}

/// Explains the log where that fails: takes whatever fits, in order. Returns the rest.
fn take_what_fits(
    session: &Session,
    sought: &[Vec<Sought>],
    logged: &[Logged],
    taken: &mut Vec<(usize, usize, i64)>,
) -> Vec<Logged> {
    let mut left = Vec::new();
    let mut open: Vec<&Sought> = sought.iter().flatten().collect();
    for change in logged {
        let exactly = open.iter().position(|sought| sought.answered == Some(change.0));
        let fitting = || {
            let unanswered = |sought: &&Sought| sought.answered.is_none();
            open.iter().position(|s| unanswered(s) && fits(session, s, change))
        };
        match exactly.or_else(fitting) {
            Some(place) => {
                let sought = open.remove(place);
                taken.push((sought.connection, sought.place, change.0));
            }
            None => left.push(change.clone()),
        }
    }
    left
}
