//! Requests that a client of a spread tree sends ahead to two shards: `/a` is at shard 1, `/b` at shard 0.

use super::spread::{ANN, HOME, OTHER, Spread, set};
use super::*;
use crate::coordination::tree::acl::Rules;
use crate::coordination::{
    Ask, Code, CoordinationAnswer, Happened, OfSession, Read, SessionNotice, WatchedEvent, Write,
    Zxid,
};
use crate::gateway::Said;
use crate::gateway::coordination::{ClientRequest, Connect};
use crate::ids::StreamId;
use adt::Blob;

fn watched(path: &str) -> ClientRequest {
    let (identities, read) = (Vec::new(), Read::Exists(Blob::from(path)));
    ClientRequest::Of(OfSession::Read { identities, read, watch: true })
}

/// Group that was sent: its shard, token, stream, and the numbers of its units.
type Sent = (ShardId, u64, StreamId, Vec<u32>);

impl Spread {
    /// Groups that were sent ahead. There are no other requests.
    fn sent(&mut self) -> Vec<Sent> {
        assert_eq!(self.asked(), []);
        self.ahead()
    }

    fn ahead(&mut self) -> Vec<Sent> {
        let groups = std::mem::take(&mut self.groups).into_iter();
        let units = groups.map(|(shard, token, group)| {
            assert!(group.is_sound(shard) && group.session() == Some(ANN));
            let seqs = group.units.iter().map(|unit| unit.seq).collect();
            (shard, token, group.stream, seqs)
        });
        units.collect()
    }

    /// Lets a shard report a unit that it has carried out, after this number of notices.
    fn carries(&mut self, (shard, _, stream, _): &Sent, seq: u32, notices: u64) {
        self.zxid += 1;
        let answered =
            CoordinationAnswer { reply: Err(Code::NoNode), zxid: Zxid(self.zxid), notices };
        let notice = SessionNotice::Carried { stream: *stream, seq, answered: Box::new(answered) };
        self.notices(*shard, notice);
    }

    fn happens(&mut self, shard: ShardId, path: &str) {
        self.zxid += 1;
        let event = WatchedEvent { happened: Happened::Data, path: Blob::from(path) };
        self.notices(shard, SessionNotice::Happened(event, Zxid(self.zxid), Rules::default()));
    }

    fn notices(&mut self, shard: ShardId, notice: SessionNotice) {
        self.story.answer(0, Answer::Notice(Notice::Session { shard, session: ANN, notice }));
    }

    /// Answers a group: for each unit, whether it took effect.
    fn settles(&mut self, (_, token, ..): &Sent, units: &[bool]) {
        let place =
            |done: &bool| done.then(|| (Timestamp(9), [Reply::Int(0)].into_iter().collect()));
        self.story.answer(*token, Answer::Units(units.iter().map(place).collect()));
    }
}

/// Letters for messages to the client: `a` for an answer, `!` for an event, `.` for the end of the
/// connection.
fn short(told: &[Said]) -> String {
    let short = |said: &Said| match said {
        Said::Answered { .. } => 'a',
        Said::Happened { .. } => '!',
        Said::Close => '.',
        other => panic!("not in these stories: {other:?}"),
    };
    told.iter().map(short).collect()
}

/// Two requests at shard 1 with one at shard 0 between them, sent ahead.
fn three() -> (Spread, Sent, Sent) {
    let mut ann = Spread::entered();
    for asked in [watched("/a"), set("/b"), set("/a")] {
        ann.asks(asked);
    }
    let sent = ann.sent();
    let units: Vec<_> = sent.iter().map(|(shard, .., units)| (*shard, &units[..])).collect();
    assert_eq!(units, [(HOME, &[1][..]), (OTHER, &[0, 2])]);
    let [home, other] = <[Sent; 2]>::try_from(sent).expect("there are two");
    (ann, home, other)
}

#[test]
fn what_goes_to_several_shards_is_sent_at_once_and_answered_in_its_order() {
    let (mut ann, home, other) = three();
    // More units can be added, and name the open ones.
    ann.asks(set("/a"));
    let more = ann.sent();
    assert_eq!((more[0].0, &more[0].3[..]), (OTHER, &[3][..]));
    ann.carries(&other, 0, 0);
    assert_eq!(short(&ann.told()), "a");
    ann.carries(&other, 2, 1);
    ann.happens(OTHER, "/a");
    ann.carries(&other, 3, 3);
    assert_eq!(short(&ann.told()), "", "the one before them is not answered");
    ann.carries(&home, 1, 0);
    let told = ann.told();
    assert_eq!(
        short(&told),
        "aa!a",
        "whoever watches is told behind what the shard has said before"
    );
    let header = |said: &Said| match said {
        Said::Answered { zxid, .. } | Said::Happened { zxid, .. } => *zxid,
        other => panic!("{other:?}"),
    };
    let Said::Happened { at, .. } = &told[2] else { panic!("{told:?}") };
    assert!(told[..2].iter().all(|said| header(said) < *at), "it was not told yet: {told:?}");
    ann.settles(&other, &[true, true]);
    ann.settles(&home, &[true]);
    assert!(ann.asked().is_empty() && ann.over.is_empty());
    ann.settles(&more[0], &[true]);
    assert_eq!(ann.told(), []);
    ann.over.sort_unstable();
    assert_eq!(ann.over, [HOME, OTHER]);
}

#[test]
fn what_has_had_no_effect_is_sent_again_the_first_of_it_alone() {
    let (mut ann, home, other) = three();
    ann.carries(&other, 0, 0);
    ann.settles(&home, &[false]);
    assert_eq!(ann.sent(), [], "some of it is open");
    ann.settles(&other, &[true, false]);
    let again = ann.asked();
    assert!(matches!(&again[..], [(HOME, _, Ask::Write(command))]
        if matches!(&command.write, Write::Change(change) if change.path()[..] == *b"/b")));
    ann.asks(set("/b"));
    ann.answers(&again[0], Err(Code::NoNode), 0);
    let units: Vec<_> = ann.sent().into_iter().map(|(shard, .., units)| (shard, units)).collect();
    assert_eq!(units, [(HOME, vec![1]), (OTHER, vec![0])], "the rest goes together again");
    assert_eq!(short(&ann.told()), "aa");
}

#[test]
fn a_connection_ends_if_what_was_answered_is_lost() {
    for lost in 0..3 {
        let (mut ann, _, other) = three();
        match lost {
            // The shard has another leader, which has carried out the unit.
            0 => ann.settles(&other, &[true, true]),
            // The outcome is unknown.
            1 => ann.story.answer(other.1, Answer::Unknown),
            // A notice that was sent before has not arrived.
            _ => ann.carries(&other, 0, 1),
        }
        assert_eq!(short(&ann.told()), ".", "{lost}");
    }
}

#[test]
fn what_cannot_be_sent_ahead_waits_for_what_is() {
    let mut ann = Spread::entered();
    for asked in [set("/a"), set("/b"), ClientRequest::Write(Write::Close), set("/a")] {
        ann.asks(asked);
    }
    let sent = ann.sent();
    for (group, shard) in sent.iter().zip([HOME, OTHER]) {
        assert_eq!(group.0, shard);
        ann.carries(group, u32::from(shard == HOME), 0);
        assert!(ann.asked().is_empty());
        ann.settles(group, &[true]);
    }
    let close = ann.asked();
    assert!(
        matches!(&close[..], [(HOME, _, Ask::Write(command))]
        if command.write == Write::Close),
        "{close:?}"
    );
}

#[test]
fn large_requests_are_not_sent_ahead() {
    let mut ann = Spread::entered();
    let data = Some(Blob::from(vec![0; crate::limits::AHEAD_BYTES_MAX]));
    let path = Blob::from("/b");
    let change = crate::coordination::Change::SetData { path, data, version: -1 };
    ann.asks(set("/a"));
    ann.asks(ClientRequest::Write(Write::Change(change)));
    let first = ann.asked();
    assert_eq!((first.len(), first[0].0), (1, OTHER));
    ann.answers(&first[0], Err(Code::NoNode), 0);
    assert_eq!(ann.asked()[0].0, HOME);
    assert!(ann.groups.is_empty());
}

#[test]
fn a_session_comes_to_another_connection_behind_what_it_has_sent_ahead() {
    let (mut ann, home, other) = three();
    let again = ann.story.came();
    ann.story.gateway.coordination(ann.story.now).left(ann.client);
    let leaves = ann.asked();
    assert!(leaves.iter().all(|(_, _, ask)| *ask == Ask::Leave(ANN)));
    let connect = Connect { session: Some(ANN), ..Connect::default() };
    ann.story.gateway.coordination(ann.story.now).connects(again, connect);
    ann.settles(&home, &[true]);
    assert_eq!(ann.asked(), [], "it could come in front of what is still on its way");
    ann.settles(&other, &[true, true]);
    let resume = ann.asked();
    assert!(matches!(&resume[..], [(HOME, _, Ask::Resume { session: ANN, .. })]), "{resume:?}");
}
