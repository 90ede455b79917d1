//! A `multi` over two shards: `/a` is at shard 1, `/b` at shard 0.

use super::spread::{ANN, HOME, OTHER, Spread, set};
use super::*;
use crate::coordination::JointId;
use crate::coordination::SpreadStep;
use crate::coordination::service::Command;
use crate::coordination::tree::acl::Rules;
use crate::coordination::{
    Ask, Change, Code, Happened, OfSession, Read, Reply as R, SessionNotice, Stat, WatchedEvent,
    Write, Zxid,
};
use crate::gateway::Said;
use crate::gateway::coordination::{ClientRequest, Connect};
use adt::Blob;

fn delete(path: &str) -> Change {
    Change::Delete { path: Blob::from(path), version: -1 }
}

fn multi(paths: &[&str]) -> ClientRequest {
    ClientRequest::Write(Write::Multi(paths.iter().map(|path| delete(path)).collect()))
}

fn version(version: i32) -> Result<R, Code> {
    Ok(R::Stat(Stat { version, ..Stat::default() }))
}

fn all(replies: &[Result<R, Code>]) -> Result<R, Code> {
    Ok(R::Multi(replies.to_vec()))
}

/// Request to a shard: shard, token and step.
type Heard = (ShardId, u64, SpreadStep);

impl Spread {
    fn steps(&mut self) -> Vec<Heard> {
        let asked = self.asked().into_iter();
        let steps = asked.map(|(shard, token, ask)| match ask {
            Ask::Write(command) => match command.write {
                Write::Spread(step) => (shard, token, step),
                other => panic!("no step: {other:?}"),
            },
            other => panic!("no step: {other:?}"),
        });
        steps.collect()
    }

    /// Request to one shard to prepare its part: token, changes, and name of the `multi`.
    fn prepares(&mut self, at: ShardId) -> (u64, Vec<Change>, JointId) {
        match &self.steps()[..] {
            [(shard, token, SpreadStep::Prepare { id, shards, changes })] if *shard == at => {
                assert_eq!(shards[..], [HOME, OTHER]);
                (*token, changes.clone(), *id)
            }
            other => panic!("{other:?}"),
        }
    }

    /// Tokens of the steps of a `multi` that are sent to these shards, besides other requests.
    fn asked_steps(&mut self, shards: &[ShardId]) -> Vec<u64> {
        let asked = self.asked().into_iter();
        let steps = asked.filter(|(.., ask)| {
            matches!(
                ask,
                Ask::Write(Command { write: Write::Spread(SpreadStep::Decide { .. }), .. })
            )
        });
        let (told, tokens): (Vec<ShardId>, Vec<u64>) =
            steps.map(|(shard, token, _)| (shard, token)).unzip();
        assert_eq!(told, shards);
        tokens
    }

    /// Checks that these shards are told the decision; returns the tokens.
    fn decides(&mut self, shards: &[ShardId], is: bool) -> Vec<u64> {
        let steps = self.steps();
        let told: Vec<ShardId> = steps.iter().map(|(shard, ..)| *shard).collect();
        assert_eq!(told, shards);
        let tokens = steps.into_iter().map(|(_, token, step)| match step {
            SpreadStep::Decide { commit, .. } if commit == is => token,
            other => panic!("{other:?}"),
        });
        tokens.collect()
    }

    fn says(&mut self, token: u64, reply: Result<R, Code>) {
        self.answers(&(HOME, token, Ask::Leave(ANN)), reply, 0);
    }

    fn is_told(&mut self) -> Vec<(Result<R, Code>, Zxid)> {
        let said = self.told().into_iter();
        let answers = said.map(|said| match said {
            Said::Answered { reply, at, .. } => (reply, at),
            other => panic!("{other:?}"),
        });
        answers.collect()
    }
}

#[test]
fn the_parts_are_prepared_one_after_the_other_and_all_shards_are_told() {
    let mut ann = Spread::entered();
    let ClientRequest::Write(Write::Change(change)) = set("/b") else { panic!() };
    ann.asks(ClientRequest::Write(Write::Multi(vec![
        delete("/a/x"),
        change.clone(),
        delete("/a/y"),
    ])));
    ann.asks(set("/a"));
    let (token, changes, id) = ann.prepares(HOME);
    assert_eq!((changes, id.number), (vec![change], 1));
    ann.says(token, all(&[version(1)]));
    let (token, changes, _) = ann.prepares(OTHER);
    assert_eq!(changes, [delete("/a/x"), delete("/a/y")]);
    ann.says(token, all(&[Ok(R::Done), Ok(R::Done)]));
    let told = ann.decides(&[HOME, OTHER], true);
    ann.says(told[1], all(&[Ok(R::Done), Ok(R::Done)]));
    assert_eq!(ann.told(), [], "the other one has not carried it out");
    ann.says(told[0], all(&[version(1)]));
    let next = ann.asked();
    assert!(matches!(&next[..], [(OTHER, ..)]), "what comes behind it waits: {next:?}");
    let merged = all(&[Ok(R::Done), version(1), Ok(R::Done)]);
    assert_eq!(ann.is_told(), [(merged, Zxid(ann.zxid))]);
}

#[test]
fn the_first_that_cannot_be_done_decides_what_is_answered() {
    let mut ann = Spread::entered();
    ann.asks(multi(&["/a", "/b", "/a/x", "/b/x"]));
    let (token, ..) = ann.prepares(HOME);
    ann.says(token, all(&[Err(Code::NoNode), Err(Code::RuntimeInconsistency)]));
    let (token, ..) = ann.prepares(OTHER);
    ann.says(token, all(&[Err(Code::NotEmpty), Err(Code::RuntimeInconsistency)]));
    let told = ann.decides(&[HOME, OTHER], false);
    ann.says(told[1], all(&[]));
    let at = Zxid(ann.zxid);
    ann.says(told[0], all(&[]));
    let rest = [Err(Code::RuntimeInconsistency), Err(Code::RuntimeInconsistency)];
    let first = [Err(Code::NotEmpty), Err(Code::RuntimeInconsistency)];
    assert_eq!(ann.is_told(), [(all(&[first, rest].concat()), at)]);
}

#[test]
fn what_cannot_be_prepared_now_is_tried_again_under_another_number() {
    let mut ann = Spread::entered();
    ann.asks(multi(&["/a", "/b"]));
    let (token, _, first) = ann.prepares(HOME);
    ann.says(token, all(&[Ok(R::Done)]));
    let (token, ..) = ann.prepares(OTHER);
    ann.says(token, Ok(R::Done));
    let told = ann.decides(&[HOME], false);
    ann.says(told[0], all(&[]));
    assert_eq!(ann.told(), []);
    ann.story.now.mono_us += 2 * crate::limits::JOINT_REST_US;
    ann.story.gateway.tick(ann.story.now);
    let (_, _, second) = ann.prepares(HOME);
    assert!(second > first);
}

#[test]
fn who_has_not_answered_is_asked_whether_it_is_prepared() {
    for known in [0, 1, 2] {
        let mut ann = Spread::entered();
        ann.asks(multi(&["/a", "/b"]));
        let (token, ..) = ann.prepares(HOME);
        ann.says(token, all(&[Ok(R::Done)]));
        let (token, ..) = ann.prepares(OTHER);
        ann.story.answer(token, Answer::Unknown);
        let asked = ann.steps();
        let [(OTHER, token, SpreadStep::Inquire { .. })] = &asked[..] else { panic!("{asked:?}") };
        ann.says(*token, Ok(R::Number(known)));
        if known == 0 {
            // The shard may have voted against the `multi`.
            ann.decides(&[HOME, OTHER], false);
            continue;
        }
        let told = ann.decides(&[HOME, OTHER], true);
        ann.says(told[0], all(&[Ok(R::Done)]));
        // Another gateway may have told the shard, and has its answer then.
        let is_first = known == 1;
        ann.says(told[1], if is_first { all(&[Ok(R::Done)]) } else { Ok(R::Done) });
        let said = ann.told();
        assert_eq!(said == [Said::Close], !is_first, "{said:?}");
    }
}

#[test]
fn an_answer_that_is_lost_is_asked_for_once_more() {
    let mut ann = Spread::entered();
    ann.asks(multi(&["/a", "/b"]));
    for shard in [HOME, OTHER] {
        let (token, ..) = ann.prepares(shard);
        ann.says(token, all(&[Ok(R::Done)]));
    }
    let told = ann.decides(&[HOME, OTHER], true);
    ann.says(told[0], all(&[Ok(R::Done)]));
    ann.story.answer(told[1], Answer::Unknown);
    assert_eq!(ann.told(), []);
    ann.story.now.mono_us += crate::limits::JOINT_REST_US;
    ann.story.gateway.tick(ann.story.now);
    let told = ann.decides(&[OTHER], true);
    ann.says(told[0], all(&[Ok(R::Done)]));
    assert_eq!(ann.is_told()[0].0, all(&[Ok(R::Done), Ok(R::Done)]));
}

#[test]
fn one_that_somebody_else_has_begun_is_settled_by_what_all_know_of_it() {
    let id = JointId { joined: Zxid(3), number: 4 };
    for (known, commit) in [([1, 1], true), ([2, 1], true), ([1, 0], false)] {
        let mut ann = Spread::new();
        let shards = vec![HOME, OTHER];
        let notice = || Notice::Undecided { session: ANN, id, shards: shards.clone() };
        ann.story.answer(0, Answer::Notice(notice()));
        let asked = ann.steps();
        ann.story.answer(0, Answer::Notice(notice()));
        assert_eq!(ann.steps(), [], "it is under way");
        for ((_, token, step), known) in asked.into_iter().zip(known) {
            assert_eq!(step, SpreadStep::Inquire { id });
            ann.says(token, Ok(R::Number(known)));
        }
        for token in ann.decides(&[HOME, OTHER], commit) {
            ann.says(token, Ok(R::Done));
        }
        assert_eq!(ann.told(), []);
        ann.story.answer(0, Answer::Notice(notice()));
        assert_eq!(ann.steps().len(), 2, "that one is over");
    }
}

#[test]
fn who_refuses_to_say_what_is_known_is_asked_again() {
    let mut ann = Spread::new();
    let (id, shards) = (JointId { joined: Zxid(3), number: 4 }, vec![HOME, OTHER]);
    ann.story.answer(0, Answer::Notice(Notice::Undecided { session: ANN, id, shards }));
    let asked = ann.steps();
    ann.says(asked[0].1, Ok(R::Number(1)));
    ann.says(asked[1].1, Err(Code::Unimplemented));
    assert_eq!(ann.steps(), []);
    ann.story.now.mono_us += crate::limits::JOINT_REST_US;
    ann.story.gateway.tick(ann.story.now);
    let asked = ann.steps();
    assert!(matches!(&asked[..], [(OTHER, _, SpreadStep::Inquire { .. })]), "{asked:?}");
    ann.says(asked[0].1, Ok(R::Number(1)));
    ann.decides(&[HOME, OTHER], true);
}

#[test]
fn the_rules_of_the_root_are_set_everywhere_and_shard_0_says_what_came_of_it() {
    let mut ann = Spread::entered();
    let rules = Change::SetAcl { path: Blob::from("/"), acl: Vec::new(), version: -1 };
    ann.asks(ClientRequest::Write(Write::Change(rules.clone())));
    for (shard, of) in [(HOME, 1), (OTHER, 2)] {
        let (token, changes, _) = ann.prepares(shard);
        assert_eq!((changes.len(), &changes[0]), (1, &rules));
        ann.says(token, all(&[version(of)]));
    }
    let told = ann.decides(&[HOME, OTHER], true);
    ann.says(told[1], all(&[version(2)]));
    ann.says(told[0], all(&[version(1)]));
    assert_eq!(ann.is_told()[0].0, version(1));
}

#[test]
fn what_happens_behind_it_at_one_shard_is_told_behind_its_answer() {
    let mut ann = Spread::entered();
    let (identities, read) = (Vec::new(), Read::Exists(Blob::from("/a")));
    ann.asks(ClientRequest::Of(OfSession::Read { identities, read, watch: true }));
    let looks = ann.asked();
    ann.answers(&looks[0], version(0), 0);
    ann.told();
    ann.asks(multi(&["/a", "/b"]));
    for shard in [HOME, OTHER] {
        let (token, ..) = ann.prepares(shard);
        ann.says(token, all(&[Ok(R::Done)]));
    }
    let told = ann.decides(&[HOME, OTHER], true);
    ann.says(told[1], all(&[Ok(R::Done)]));
    ann.zxid += 1;
    let event = WatchedEvent { happened: Happened::Created, path: Blob::from("/a") };
    let notice = SessionNotice::Happened(event, Zxid(ann.zxid), Rules::default());
    let notice = Notice::Session { shard: OTHER, session: ANN, notice };
    ann.story.answer(0, Answer::Notice(notice));
    assert_eq!(ann.told(), []);
    ann.says(told[0], all(&[Ok(R::Done)]));
    assert!(matches!(ann.told()[..], [Said::Answered { .. }, Said::Happened { .. }]));
}

#[test]
fn a_connection_that_was_about_to_be_left_is_told_what_came_of_it_or_closed() {
    for decided in [false, true] {
        let mut ann = Spread::entered();
        ann.asks(multi(&["/a", "/b"]));
        let (token, ..) = ann.prepares(HOME);
        if decided {
            ann.says(token, all(&[Ok(R::Done)]));
            let (token, ..) = ann.prepares(OTHER);
            ann.says(token, all(&[Ok(R::Done)]));
        }
        // Another connection resumes the session, and leaves before it has it.
        let other = ann.story.came();
        let back = Connect { session: Some(ANN), ..Connect::default() };
        ann.story.gateway.coordination(ann.story.now).connects(other, back);
        let told = if decided {
            ann.asked_steps(&[HOME, OTHER])
        } else {
            ann.says(token, all(&[Ok(R::Done)]));
            ann.asked_steps(&[HOME])
        };
        for token in told {
            ann.says(token, if decided { all(&[Ok(R::Done)]) } else { all(&[]) });
        }
        ann.story.gateway.coordination(ann.story.now).left(other);
        ann.story.now.mono_us += 2 * crate::limits::JOINT_REST_US;
        ann.story.gateway.tick(ann.story.now);
        match decided {
            true => assert_eq!(ann.is_told()[0].0, all(&[Ok(R::Done), Ok(R::Done)])),
            // The client may go on, and the `multi` is tried again.
            false => drop(ann.prepares(HOME)),
        }
    }
}

#[test]
fn nothing_more_is_prepared_when_its_client_has_left() {
    let mut ann = Spread::entered();
    ann.asks(multi(&["/a", "/b"]));
    let (token, ..) = ann.prepares(HOME);
    ann.story.gateway.coordination(ann.story.now).left(ann.client);
    let leaves = ann.asked();
    assert!(leaves.iter().all(|(.., ask)| matches!(ask, Ask::Leave(ANN))));
    ann.says(token, all(&[Ok(R::Done)]));
    let told = ann.decides(&[HOME], false);
    ann.says(told[0], all(&[]));
    assert_eq!(ann.told(), []);
}
