//! Where in the logs of several shards each `multi` is that they have carried out together: read from the
//! bytes on the disk, like the changes of one shard ([`crate::zxids`]). On the way it is found out whether
//! every one of them was carried out everywhere or nowhere.

use crate::errand::as_change;
use crate::spread::parts;
use crate::zxids::Logged;
use check::coordination::{Answer, Asked, History, Reply, Request, Session, Zxid, code};
use engine::coordination::Write;
use engine::coordination::service::JointId;
use engine::coordination::spread::{Spread, Step};
use engine::ids::ShardId;
use std::collections::{BTreeMap, BTreeSet};

/// What the logs have of one.
#[derive(Debug, Default)]
struct Joint {
    shards: Vec<ShardId>,
    /// Where its parts were prepared first, and what is in them.
    prepared: BTreeMap<ShardId, (Zxid, Write)>,
    /// Where they were carried out, or given up.
    committed: BTreeMap<ShardId, Zxid>,
    given_up: BTreeMap<ShardId, Zxid>,
    /// It is some request's.
    taken: bool,
}

impl Joint {
    /// Whether it is what this request has asked.
    fn is_of(&self, over: Spread, request: &Request) -> bool {
        let parts = parts(over, request);
        let is_part = |(shard, (_, part)): (&ShardId, &(Vec<usize>, Request))| {
            let Request::Multi(changes) = part else { return false };
            let changes: Vec<_> = changes.iter().map(as_change).collect();
            self.prepared.get(shard).is_some_and(|(_, write)| write.changes() == changes)
        };
        parts.len() == self.shards.len() && parts.iter().all(is_part)
    }

    fn committed(&self) -> Vec<(usize, Zxid)> {
        self.committed.iter().map(|(shard, zxid)| (usize::from(shard.0), *zxid)).collect()
    }
}

type Joints = BTreeMap<(i64, JointId), Joint>;

/// What every shard has, by its changes in their order.
fn read(changes: &BTreeMap<ShardId, Vec<Logged>>) -> Joints {
    let mut joints = Joints::new();
    for (&shard, changes) in changes {
        for (zxid, command) in changes {
            let (zxid, session) = (*zxid, command.session.0);
            match command.write.clone() {
                Write::Spread(Step::Prepare { id, shards, changes }) => {
                    let joint = joints.entry((session, id)).or_default();
                    joint.shards = shards;
                    let part = (zxid, Write::Multi(changes));
                    joint.prepared.entry(shard).or_insert(part);
                }
                Write::Spread(Step::Decide { id, commit }) => {
                    let joint = joints.entry((session, id)).or_default();
                    let decided = if commit { &mut joint.committed } else { &mut joint.given_up };
                    decided.entry(shard).or_insert(zxid);
                }
                _ => {}
            }
        }
    }
    joints
}

/// Whether all changes were carried out.
fn is_done(answer: &Answer) -> bool {
    matches!(answer, Ok(Reply::Multi(answers)) if answers.iter().all(Result::is_ok))
}

/// Notes with every such request where the logs have it. One that was refused stands where the shard that
/// voted against it was told so. Gives these numbers.
///
/// # Errors
/// Something was carried out at some shards and not at others, was answered and is not there, or was not
/// asked for.
pub fn stamp(
    history: &mut History,
    changes: &BTreeMap<ShardId, Vec<Logged>>,
    over: Spread,
) -> Result<BTreeMap<ShardId, BTreeSet<Zxid>>, String> {
    let mut joints = read(changes);
    for ((session, id), joint) in &joints {
        let everywhere = joint.shards.iter().all(|shard| joint.committed.contains_key(shard));
        if !joint.committed.is_empty() && !everywhere {
            return Err(format!("half a multi of session {session}, {id:?}: {joint:?}"));
        }
    }
    let mut votes = BTreeMap::new();
    for session in &mut history.sessions {
        for answered in [true, false] {
            stamp_session(session, &mut joints, over, answered, &mut votes)?;
        }
    }
    match joints.iter().find(|(_, joint)| !joint.committed.is_empty() && !joint.taken) {
        Some(stray) => Err(format!("nobody has asked for {stray:?}")),
        None => Ok(votes),
    }
}

/// How many of them there are, as far as their requests were answered or they were carried out.
pub fn counts(history: &History) -> [(&'static str, u64); 2] {
    let connections = history.sessions.iter().flat_map(|session| &session.connections);
    let all: Vec<usize> =
        connections.flat_map(|connection| &connection.asked).map(|a| a.parts.len()).collect();
    let count = |is: fn(&&usize) -> bool| all.iter().filter(is).count() as u64;
    let (done, refused) = (count(|parts| **parts > 1), count(|parts| **parts == 1));
    [("multis_over_shards", done), ("multis_over_shards_refused", refused)]
}

/// Those that were answered are told apart by their numbers, others by what they are.
fn stamp_session(
    session: &mut Session,
    joints: &mut Joints,
    over: Spread,
    of_answered: bool,
    votes: &mut BTreeMap<ShardId, BTreeSet<Zxid>>,
) -> Result<(), String> {
    let id = session.id;
    for connection in &mut session.connections {
        let answers: Vec<Option<(Zxid, Answer)>> = connection
            .exchanges()
            .map(|(_, answered)| answered.map(|(_, zxid, answer)| (zxid, answer.clone())))
            .collect();
        for (asked, answered) in connection.asked.iter_mut().zip(answers) {
            if parts(over, &asked.request).is_empty() || answered.is_some() != of_answered {
                continue;
            }
            let of = (id, JointId::default())..(id + 1, JointId::default());
            let mut own = joints.range_mut(of).map(|(_, joint)| joint);
            let found = match &answered {
                Some((zxid, answer)) if is_done(answer) => own.find(|joint| {
                    joint.committed.values().max() == Some(zxid)
                        && joint.is_of(over, &asked.request)
                }),
                Some((zxid, answer @ Ok(_))) => {
                    let voter = voter(over, &asked.request, answer);
                    refused(asked, own, (voter, *zxid), votes)?;
                    continue;
                }
                Some((_, Err(_))) => continue,
                None => own.find(|joint| {
                    !joint.taken && !joint.committed.is_empty() && joint.is_of(over, &asked.request)
                }),
            };
            match found {
                Some(joint) => {
                    asked.parts = joint.committed();
                    joint.taken = true;
                }
                None if of_answered => {
                    return Err(format!("{asked:?} was answered {answered:?}, and is not there"));
                }
                None => asked.zxid = given_up(joints, id, over, &asked.request),
            }
        }
    }
    Ok(())
}

/// Where a request that was not answered was given up, if it was: it was not left out.
fn given_up(joints: &Joints, session: i64, over: Spread, request: &Request) -> Option<Zxid> {
    let of = (session, JointId::default())..(session + 1, JointId::default());
    let own = joints.range(of).filter(|(_, joint)| joint.is_of(over, request));
    // A shard that has not prepared it does not know what its session knew.
    let at = |joint: &Joint| {
        let given_up = joint.given_up.iter();
        given_up.filter(|(s, _)| joint.prepared.contains_key(s)).map(|(_, zxid)| *zxid).max()
    };
    own.filter(|(_, joint)| !joint.taken).filter_map(|(_, joint)| at(joint)).max()
}

/// The shard of the change that was refused: those before it are told that they were not, those behind it
/// that it was not their fault.
fn voter(over: Spread, request: &Request, answer: &Answer) -> Option<ShardId> {
    let Ok(Reply::Multi(answers)) = answer else { return None };
    let first = answers.iter().position(|answer| *answer != Err(code::OK))?;
    let parts = parts(over, request);
    parts.into_iter().find(|(_, (places, _))| places.contains(&first)).map(|(shard, _)| shard)
}

/// A request was refused at this change of this shard.
fn refused<'a>(
    asked: &mut Asked,
    mut own: impl Iterator<Item = &'a mut Joint>,
    (voter, zxid): (Option<ShardId>, Zxid),
    votes: &mut BTreeMap<ShardId, BTreeSet<Zxid>>,
) -> Result<(), String> {
    let voted = |joint: &&mut Joint| {
        voter.is_some_and(|voter| joint.given_up.get(&voter) == Some(&zxid))
            && joint.committed.is_empty()
    };
    let Some((shard, joint)) = voter.zip(own.find(voted)) else {
        return Err(format!("{asked:?} was refused by {voter:?} at {zxid}: not in the logs"));
    };
    joint.taken = true;
    votes.entry(shard).or_default().insert(zxid);
    asked.parts = vec![(usize::from(shard.0), zxid)];
    Ok(())
}
