//! Clients of a tree that is spread over two shards: `/a` is at shard 1, `/b` and the sessions are at
//! shard 0.

use super::*;
use crate::coordination::SpreadStep;
use crate::coordination::tree::acl::Rules;
use crate::coordination::{
    Ask, Change, Code, CoordinationAnswer, Happened, OfSession, Read, Reply as R, SessionNotice,
    Stat, Watch, WatchedEvent, WatcherType, Write, Zxid,
};
use crate::gateway::coordination::{ClientRequest, Connect};
use crate::gateway::{CoordinationClient, Said};
use crate::pipeline::Group;
use adt::Blob;
use std::sync::Arc;

pub(super) const ANN: crate::coordination::TreeSessionId = crate::coordination::TreeSessionId(7);
pub(super) const HOME: ShardId = ShardId(0);
pub(super) const OTHER: ShardId = ShardId(1);

/// Request to a shard, with its token.
type Heard = (ShardId, u64, Ask);

pub(super) struct Spread {
    pub(super) story: Story,
    pub(super) client: CoordinationClient,
    said: Vec<Said>,
    pub(super) zxid: i64,
    /// Groups that were sent ahead, and shards that were told that a stream is over.
    pub(super) groups: Vec<(ShardId, u64, Arc<Group>)>,
    pub(super) over: Vec<ShardId>,
}

pub(super) fn set(path: &str) -> ClientRequest {
    let (path, data) = (Blob::from(path), None);
    ClientRequest::Write(Write::Change(Change::SetData { path, data, version: -1 }))
}

fn children(path: &str, watch: bool) -> ClientRequest {
    let (identities, path) = (Vec::new(), Blob::from(path));
    ClientRequest::Of(OfSession::Read {
        identities,
        read: Read::Children { path, stat: true },
        watch,
    })
}

fn names(names: &[&str], pzxid: i64) -> Result<R, Code> {
    let stat = Stat {
        num_children: names.len() as i32,
        cversion: -1,
        pzxid: Zxid(pzxid),
        ..Stat::default()
    };
    Ok(R::Children(names.iter().map(|name| Blob::from(*name)).collect(), Some(stat)))
}

impl Spread {
    /// Client with a session at shard 0.
    pub(super) fn new() -> Self {
        Self::of(Order::Constant)
    }

    fn of(order: Order) -> Self {
        let mut story = Story::ordered(order);
        let client = story.came();
        let (said, groups, over) = Default::default();
        let mut spread = Self { story, client, said, zxid: 10, groups, over };
        spread.story.gateway.coordination(spread.story.now).connects(client, Connect::default());
        let over = spread.asked();
        spread.answers(&over[0], Ok(R::Number(2)), 0);
        let open = spread.asked();
        spread.answers(&open[0], Ok(R::Session(ANN)), 0);
        assert!(matches!(spread.told()[..], [Said::Connected { session: ANN, .. }]));
        spread
    }

    /// Client whose session has entered shard 1 too.
    pub(super) fn entered() -> Self {
        Self::entered_with(Order::Constant)
    }

    /// Such a client at a gateway that sends no requests ahead.
    fn waiting() -> Self {
        Self::entered_with(Order::None)
    }

    fn entered_with(order: Order) -> Self {
        let mut spread = Self::of(order);
        spread.asks(set("/a"));
        let join = spread.asked();
        spread.answers(&join[0], Ok(R::Done), 0);
        let enter = spread.asked();
        spread.answers(&enter[0], Ok(R::Done), 0);
        let first = spread.asked();
        spread.answers(&first[0], Ok(R::Stat(Stat::default())), 0);
        spread.told();
        spread
    }

    pub(super) fn asks(&mut self, asked: ClientRequest) {
        self.story.gateway.coordination(self.story.now).asks(self.client, asked);
    }

    /// Requests to shards.
    pub(super) fn asked(&mut self) -> Vec<Heard> {
        let mut asked = Vec::new();
        while let Some(output) = self.story.gateway.poll() {
            match output {
                Output::Shard { shard, request: Request { token, body, .. } } => match body {
                    Body::Coordinate(ask) => asked.push((shard, token.0, *ask)),
                    Body::Pipeline(group) => self.groups.push((shard, token.0, group)),
                    Body::EndStream { .. } => self.over.push(shard),
                    other => panic!("not in these stories: {other:?}"),
                },
                Output::Coordination { said, .. } => self.said.push(said),
                other => panic!("not in these stories: {other:?}"),
            }
        }
        asked
    }

    fn shards(&mut self) -> Vec<ShardId> {
        self.asked().into_iter().map(|(shard, ..)| shard).collect()
    }

    /// Messages to the client.
    pub(super) fn told(&mut self) -> Vec<Said> {
        assert!(self.asked().is_empty(), "nothing more is asked");
        std::mem::take(&mut self.said)
    }

    /// Answers a request for a shard, at the next change.
    pub(super) fn answers(&mut self, (_, token, _): &Heard, reply: Result<R, Code>, notices: u64) {
        self.zxid += 1;
        let answered = CoordinationAnswer { reply, zxid: Zxid(self.zxid), notices };
        self.story.answer(*token, Answer::Coordinated(Box::new(answered)));
    }

    fn hears(&mut self, shard: ShardId, happened: Happened, path: &str) {
        self.zxid += 1;
        let event = WatchedEvent { happened, path: Blob::from(path) };
        let notice = SessionNotice::Happened(event, Zxid(self.zxid), Rules::default());
        let notice = Notice::Session { shard, session: ANN, notice };
        self.story.answer(0, Answer::Notice(notice));
    }
}

#[test]
fn a_session_joins_and_enters_a_shard_before_it_asks_anything_there() {
    let mut ann = Spread::new();
    ann.asks(set("/a"));
    let join = ann.asked();
    assert!(matches!(&join[..], [(HOME, _, Ask::Write(command))]
        if command.write == Write::Spread(SpreadStep::Join(vec![OTHER]))));
    ann.answers(&join[0], Ok(R::Done), 0);
    let joined = Zxid(ann.zxid);
    let enter = ann.asked();
    assert!(matches!(&enter[..], [(OTHER, _, Ask::Write(command))]
        if matches!(command.write, Write::Spread(SpreadStep::Enter { joined: at, .. }) if at == joined)));
    ann.answers(&enter[0], Ok(R::Done), 0);
    let asked = ann.asked();
    let after = Zxid(ann.zxid);
    assert!(
        matches!(&asked[..], [(OTHER, _, Ask::Write(command))] if command.after == after),
        "its number is to be larger than all that the client knows: {asked:?}"
    );
    ann.asks(set("/a"));
    assert_eq!(ann.shards(), [OTHER], "once is enough");
}

#[test]
fn what_goes_to_another_shard_waits_and_what_goes_to_the_same_one_does_not() {
    let mut ann = Spread::waiting();
    for path in ["/a", "/a", "/b", "/a"] {
        ann.asks(set(path));
    }
    let first = ann.asked();
    assert_eq!(first.iter().map(|(shard, ..)| *shard).collect::<Vec<_>>(), [OTHER, OTHER]);
    ann.answers(&first[0], Err(Code::NoNode), 0);
    assert!(ann.asked().is_empty());
    ann.answers(&first[1], Err(Code::NoNode), 0);
    let next = ann.asked();
    assert_eq!(next.len(), 1);
    assert_eq!(next[0].0, HOME);
    ann.answers(&next[0], Err(Code::NoNode), 0);
    assert_eq!(ann.shards(), [OTHER]);
}

#[test]
fn what_several_shards_would_have_to_look_at_together_is_refused() {
    let mut ann = Spread::entered();
    let reads = ["/a", "/b"].map(|path| Read::Data(Blob::from(path))).to_vec();
    let (identities, read, watch) = (Vec::new(), Read::Multi(reads), false);
    ann.asks(ClientRequest::Of(OfSession::Read { identities, read, watch }));
    assert!(matches!(ann.told()[..], [Said::Answered { reply: Err(Code::BadArguments), .. }]));
}

#[test]
fn the_root_is_what_all_shards_say_twice_without_a_change() {
    let mut ann = Spread::entered();
    ann.asks(children("/", false));
    let (own, other) = (&["b", "zookeeper"][..], &["a", "zookeeper"][..]);
    let none = &["zookeeper"][..];
    for (home, home_at, away, away_at) in [(own, 3, other, 4), (own, 3, none, 5), (own, 3, none, 5)]
    {
        let asked = ann.asked();
        assert_eq!(asked.len(), 2);
        ann.answers(&asked[0], names(home, home_at), 0);
        ann.answers(&asked[1], names(away, away_at), 0);
    }
    let told = ann.told();
    let [Said::Answered { reply: Ok(R::Children(names, Some(stat))), .. }] = &told[..] else {
        panic!("{told:?}")
    };
    assert_eq!(names[..], ["b", "zookeeper"].map(Blob::from));
    // The own nodes of each shard count once.
    assert_eq!((stat.num_children, stat.cversion, stat.pzxid), (2, -1, Zxid(5)));
}

#[test]
fn whoever_watches_the_roots_children_is_told_once_by_whichever_shard_comes_first() {
    let mut ann = Spread::entered();
    ann.asks(children("/", true));
    for _ in 0..2 {
        let asked = ann.asked();
        ann.answers(&asked[0], names(&["zookeeper"], 3), 0);
        ann.answers(&asked[1], names(&["zookeeper"], 4), 0);
    }
    assert_eq!(ann.told().len(), 1);
    ann.hears(OTHER, Happened::Children, "/");
    let unwatched = ann.asked();
    assert!(matches!(
        &unwatched[..],
        [(HOME, _, Ask::Of(_, OfSession::Unwatch { which: WatcherType::Children, .. }))]
    ));
    // The other shard did not know that yet.
    ann.hears(HOME, Happened::Children, "/");
    let told = ann.told();
    assert!(
        matches!(&told[..], [Said::Happened { event, .. }] if event.happened == Happened::Children)
    );
    // The client reads and watches again; changes in between are reported behind the answer.
    ann.asks(children("/", true));
    let asked = ann.asked();
    ann.answers(&asked[0], names(&["zookeeper"], 5), 1);
    ann.answers(&asked[1], names(&["zookeeper"], 6), 1);
    let asked = ann.asked();
    ann.answers(&asked[1], names(&["zookeeper"], 6), 1);
    ann.hears(OTHER, Happened::Children, "/");
    ann.answers(&asked[0], names(&["zookeeper"], 5), 1);
    ann.asked();
    let told = ann.told();
    assert!(matches!(&told[..], [Said::Answered { .. }, Said::Happened { .. }]), "{told:?}");
}

#[test]
fn a_change_of_the_roots_children_that_an_answer_shows_is_told_to_who_watched_before() {
    let mut ann = Spread::entered();
    for told in [0, 1] {
        ann.asks(children("/", true));
        let asked = ann.asked();
        ann.answers(&asked[0], names(&["zookeeper"], 3), 0);
        if told == 1 {
            // The change is reported while the client reads again.
            ann.hears(OTHER, Happened::Children, "/");
        }
        ann.answers(&asked[1], names(&["zookeeper"], 4), told);
        let asked = ann.asked();
        ann.answers(&asked[0], names(&["zookeeper"], 3), 0);
        ann.answers(&asked[1], names(&["zookeeper"], 4), told);
        let said = ann.told();
        assert_eq!(said.len() as u64, 1 + told, "{said:?}");
    }
}

#[test]
fn nothing_is_sent_behind_the_end_of_a_session() {
    let mut ann = Spread::entered();
    ann.asks(ClientRequest::Write(Write::Close));
    ann.asks(set("/b"));
    let closes = ann.asked();
    assert_eq!(closes.len(), 1);
    ann.answers(&closes[0], Ok(R::Done), 0);
    assert!(matches!(ann.told()[..], [Said::Answered { reply: Ok(R::Done), .. }, Said::Close]));
}

#[test]
fn a_session_that_is_refused_because_others_have_ended_joins_again() {
    let mut ann = Spread::new();
    ann.asks(set("/a"));
    let join = ann.asked();
    ann.answers(&join[0], Ok(R::Done), 0);
    let enter = ann.asked();
    ann.answers(&enter[0], Err(Code::SessionMoved), 0);
    let again = ann.asked();
    assert!(matches!(&again[..], [(HOME, _, Ask::Write(command))]
        if command.write == Write::Spread(SpreadStep::Join(vec![OTHER]))));
    ann.answers(&again[0], Err(Code::SessionMoved), 0);
    assert_eq!(ann.told(), [Said::Close], "it is elsewhere");
}

#[test]
fn a_client_comes_back_from_where_it_has_been_told_everything() {
    let mut ann = Spread::entered();
    let read = |path| {
        let (identities, read) = (Vec::new(), Read::Data(Blob::from(path)));
        ClientRequest::Of(OfSession::Read { identities, read, watch: true })
    };
    ann.asks(read("/a"));
    let asked = ann.asked();
    ann.answers(&asked[0], Err(Code::NoNode), 0);
    let watched = Zxid(ann.zxid);
    ann.told();
    ann.asks(set("/b"));
    let asked = ann.asked();
    ann.answers(&asked[0], Err(Code::NoNode), 0);
    let told = ann.told();
    assert!(
        matches!(told[..], [Said::Answered { zxid, at, .. }] if zxid == watched && at > watched),
        "shard 1 may have changed since: {told:?}"
    );
    ann.asks(read("/b"));
    let asked = ann.asked();
    ann.answers(&asked[0], Err(Code::NoNode), 0);
    ann.told();
    ann.hears(HOME, Happened::Created, "/b");
    let told = ann.told();
    assert!(
        matches!(told[..], [Said::Happened { zxid, at, .. }] if zxid == watched && at > watched)
    );
    ann.hears(OTHER, Happened::Data, "/a");
    ann.asks(set("/b"));
    let asked = ann.asked();
    ann.answers(&asked[0], Err(Code::NoNode), 1);
    let told = ann.told();
    assert!(matches!(told[..], [_, Said::Answered { zxid, .. }] if zxid > watched), "{told:?}");
}

#[test]
fn watches_set_again_in_parts_are_numbered_from_where_the_client_was() {
    let mut ann = Spread::entered();
    let since = Zxid(ann.zxid);
    for path in ["/a", "/b"] {
        let watches = vec![(Blob::from(path), Watch::Data)];
        ann.asks(ClientRequest::Of(OfSession::Watch { since, watches }));
    }
    let mut parts = ann.asked();
    ann.answers(&parts[0], Ok(R::Done), 0);
    parts.extend(ann.asked());
    let told = std::mem::take(&mut ann.said);
    assert!(
        matches!(told[..], [Said::Answered { zxid, at, .. }] if zxid == since && at > since),
        "what was missed at shard 0 is not reported yet: {told:?}"
    );
    ann.answers(&parts[1], Ok(R::Done), 0);
    let told = ann.told();
    assert!(matches!(told[..], [Said::Answered { zxid, .. }] if zxid > since), "{told:?}");
}

#[test]
fn a_client_that_comes_back_enters_all_shards_again_before_it_is_on() {
    let mut ann = Spread::entered();
    ann.story.gateway.coordination(ann.story.now).left(ann.client);
    let left = ann.asked();
    assert_eq!(left.iter().map(|(shard, ..)| *shard).collect::<Vec<_>>(), [HOME, OTHER]);
    ann.client = ann.story.came();
    let connect = Connect { session: Some(ANN), seen: Zxid(ann.zxid), ..Connect::default() };
    ann.story.gateway.coordination(ann.story.now).connects(ann.client, connect);
    let back = ann.asked();
    ann.answers(&back[0], Ok(R::Joined(6_000, vec![OTHER])), 0);
    let join = ann.asked();
    assert!(matches!(&join[..], [(HOME, _, Ask::Write(command))]
        if command.write == Write::Spread(SpreadStep::Join(vec![OTHER]))));
    ann.answers(&join[0], Ok(R::Done), 0);
    let enter = ann.asked();
    assert_eq!(ann.said, []);
    ann.answers(&enter[0], Ok(R::Done), 0);
    assert!(matches!(ann.told()[..], [Said::Connected { timeout_ms: 6_000, .. }]));
    // Each shard gets the watches of its nodes.
    let watches = ["/a", "/b", "/"].map(|path| (Blob::from(path), Watch::Child)).to_vec();
    ann.asks(ClientRequest::Of(OfSession::Watch { since: Zxid(3), watches }));
    let parts = ann.asked().into_iter().map(|(shard, _, ask)| match ask {
        Ask::Of(_, OfSession::Watch { watches, .. }) => (shard, watches.len()),
        other => panic!("{other:?}"),
    });
    assert_eq!(parts.collect::<Vec<_>>(), [(HOME, 2), (OTHER, 2)]);
}

#[test]
fn what_a_connection_has_not_sent_when_its_session_comes_to_another_one_is_not_sent() {
    for back in [true, false] {
        let mut ann = Spread::waiting();
        ann.asks(set("/a"));
        ann.asks(set("/b"));
        let first = ann.asked();
        assert_eq!(first.len(), 1);
        let other = ann.story.came();
        let connect = Connect { session: Some(ANN), ..Connect::default() };
        ann.story.gateway.coordination(ann.story.now).connects(other, connect);
        let resume = ann.asked();
        ann.answers(&first[0], Err(Code::NoNode), 0);
        ann.asks(set("/b"));
        assert!(ann.asked().is_empty(), "it would be taken for what the other one asks");
        let (reply, sent) = match back {
            true => (Ok(R::Number(6_000)), 0),
            false => (Err(Code::SessionExpired), 2),
        };
        ann.answers(&resume[0], reply, 0);
        assert_eq!(ann.asked().len(), sent, "back: {back}");
    }
}

#[test]
fn shard_0_hears_of_a_client_that_has_to_do_with_another_one() {
    let mut ann = Spread::entered();
    ann.asks(set("/a"));
    assert_eq!(ann.shards(), [OTHER]);
    ann.story.now.mono_us += 1_000_000;
    ann.asks(set("/a"));
    assert_eq!(ann.shards(), [HOME, OTHER]);
    ann.asks(set("/a"));
    assert_eq!(ann.shards(), [OTHER]);
}

#[test]
fn the_word_of_an_end_is_carried_from_one_to_the_next() {
    let mut ann = Spread::new();
    let (ended, finished, shards) = (Zxid(30), false, vec![OTHER]);
    let notice = Notice::Ending { session: ANN, ended, finished, shards };
    ann.story.answer(0, Answer::Notice(notice));
    for (at, step) in [
        (OTHER, SpreadStep::Depart { ended }),
        (HOME, SpreadStep::Finish),
        (OTHER, SpreadStep::Gone),
        (HOME, SpreadStep::Forget),
    ] {
        let said = ann.asked();
        assert!(
            matches!(&said[..], [(shard, _, Ask::Write(command))]
                if *shard == at && command.write == Write::Spread(step.clone())),
            "{said:?}"
        );
        ann.answers(&said[0], Ok(R::Done), 0);
    }
    assert_eq!(ann.told(), []);
}
