//! Positions of joint `multi`s in the logs of their shards, read from the bytes on the disk, like
//! the changes of one shard ([`super::zxids`]). The reader also checks that each of them was
//! applied everywhere or nowhere.

use super::spread::parts;
use super::zxids::Logged;
use crate::clients::errand::as_change;
use check::coordination::{Answer, Asked, History, Reply, Request, Session, Zxid, code};
use engine::coordination::JointId;
use engine::coordination::SpreadStep;
use engine::coordination::Write;
use engine::coordination::spread::Spread;
use engine::ids::ShardId;
use std::collections::{BTreeMap, BTreeSet};

/// Records of a joint `multi` in the logs.
#[derive(Debug, Default)]
struct Joint {
    shards: Vec<ShardId>,
    /// First prepare at each shard, and the changes in it.
    prepared: BTreeMap<ShardId, (Zxid, Write)>,
    /// Commit or abort at each shard.
    committed: BTreeMap<ShardId, Zxid>,
    given_up: BTreeMap<ShardId, Zxid>,
    /// Whether it is assigned to a request.
    taken: bool,
}

impl Joint {
    /// Whether it belongs to this request.
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

/// Reads the joint `multi`s from the changes of all shards.
fn read(changes: &BTreeMap<ShardId, Vec<Logged>>) -> Joints {
    let mut joints = Joints::new();
    for (&shard, changes) in changes {
        for (zxid, command) in changes {
            let (zxid, session) = (*zxid, command.session.0);
            match command.write.clone() {
                Write::Spread(SpreadStep::Prepare { id, shards, changes }) => {
                    let joint = joints.entry((session, id)).or_default();
                    joint.shards = shards;
                    let part = (zxid, Write::Multi(changes));
                    joint.prepared.entry(shard).or_insert(part);
                }
                Write::Spread(SpreadStep::Decide { id, commit }) => {
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

/// Whether all changes were applied.
fn is_done(answer: &Answer) -> bool {
    matches!(answer, Ok(Reply::Multi(answers)) if answers.iter().all(Result::is_ok))
}

/// Assigns positions in the logs to all joint requests. A refused request gets the position at
/// which the shard that voted against it learned the outcome. Returns these positions.
///
/// # Errors
/// If a joint `multi` was applied at some shards only, was answered and is not in the logs, or was
/// not requested.
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
        Some(stray) => Err(format!("no client has asked for {stray:?}")),
        None => Ok(votes),
    }
}

/// Number of joint requests that were answered or applied.
pub fn counts(history: &History) -> [(&'static str, u64); 2] {
    let connections = history.sessions.iter().flat_map(|session| &session.connections);
    let all: Vec<usize> =
        connections.flat_map(|connection| &connection.asked).map(|a| a.parts.len()).collect();
    let count = |is: fn(&&usize) -> bool| all.iter().filter(is).count() as u64;
    let (done, refused) = (count(|parts| **parts > 1), count(|parts| **parts == 1));
    [("multis_over_shards", done), ("multis_over_shards_refused", refused)]
}

/// Answered requests are identified by their numbers, others by their contents.
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

/// Position at which an unanswered request was aborted, if it was; it was not skipped then.
fn given_up(joints: &Joints, session: i64, over: Spread, request: &Request) -> Option<Zxid> {
    let of = (session, JointId::default())..(session + 1, JointId::default());
    let own = joints.range(of).filter(|(_, joint)| joint.is_of(over, request));
    // A shard that has not prepared it does not know the session's last change.
    let at = |joint: &Joint| {
        let given_up = joint.given_up.iter();
        given_up.filter(|(s, _)| joint.prepared.contains_key(s)).map(|(_, zxid)| *zxid).max()
    };
    own.filter(|(_, joint)| !joint.taken).filter_map(|(_, joint)| at(joint)).max()
}

/// Shard of the change that was refused: earlier changes get a rollback result, later ones a result
/// that blames another change.
fn voter(over: Spread, request: &Request, answer: &Answer) -> Option<ShardId> {
    let Ok(Reply::Multi(answers)) = answer else { return None };
    let first = answers.iter().position(|answer| *answer != Err(code::OK))?;
    let parts = parts(over, request);
    parts.into_iter().find(|(_, (places, _))| places.contains(&first)).map(|(shard, _)| shard)
}

/// Position at which a request was refused by this change of this shard.
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
