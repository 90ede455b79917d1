//! Stories about sessions at the shard that has the tree: what they are told, and in which order.

use super::*;
use crate::coordination::service::Command;
use crate::coordination::{
    Acl, Ask, Change, CoordinationAnswer, Create, CreateMode, Identity, Lasts, OfSession, Read,
    Reply as R, SessionNotice, TreeSessionId, Watch, Write, Zxid,
};
use crate::message::CutStep;
use crate::shard::transfer::snapshot::Reader;

pub(super) const H: GatewayId = GatewayId { machine: MachineId(2), worker: 0, life: 0 };
const TIMEOUT_MS: i32 = 6_000;

pub(super) fn create(path: &str, ephemeral: bool) -> Change {
    let lasts = if ephemeral { Lasts::Session } else { Lasts::Always };
    create_so(path, lasts)
}

fn create_so(path: &str, lasts: Lasts) -> Change {
    let who = Identity { scheme: Blob::from("world"), id: Blob::from("anyone") };
    let mode = CreateMode { lasts, sequential: false };
    let acl = vec![Acl { perms: Acl::ALL, who }];
    Change::Create(Create { path: Blob::from(path), data: None, acl, mode, stat: false })
}

pub(in crate::shard::tests) fn set(path: &str, data: &str) -> Change {
    Change::SetData { path: Blob::from(path), data: Some(Blob::from(data)), version: -1 }
}

pub(in crate::shard::tests) fn read(path: &str, watch: bool) -> OfSession {
    OfSession::Read { identities: Vec::new(), read: Read::Data(Blob::from(path)), watch }
}

pub(super) fn children(path: &str, watch: bool) -> OfSession {
    let read = Read::Children { path: Blob::from(path), stat: false };
    OfSession::Read { identities: Vec::new(), read, watch }
}

impl Story {
    /// Number of watches.
    fn watches(&self) -> usize {
        self.shard.survey().watched.map_or(0, |watched| watched.watches)
    }

    pub(super) fn coordinate(&mut self, gateway: GatewayId, ask: Ask) -> u64 {
        self.token += 1;
        self.now.wall_us += 1;
        let body = Body::Coordinate(Box::new(ask));
        let request = Request { gateway, token: Token(self.token), after: None, body };
        self.shard.handle(self.now, request);
        self.token
    }

    pub(in crate::shard::tests) fn write(&mut self, session: TreeSessionId, change: Change) -> u64 {
        let write = Write::Change(change);
        self.coordinate(G, Ask::Write(Command::of(session, write)))
    }

    pub(in crate::shard::tests) fn of(&mut self, session: TreeSessionId, of: OfSession) -> u64 {
        self.coordinate(G, Ask::Of(session, of))
    }

    fn resume(&mut self, gateway: GatewayId, session: TreeSessionId) -> u64 {
        self.coordinate(gateway, Ask::Resume { session, password: [7; 16] })
    }

    pub(super) fn open(&mut self) -> TreeSessionId {
        let write = Write::Open { timeout_ms: TIMEOUT_MS, password: [7; 16] };
        let (session, identities) = (TreeSessionId(0), Vec::new());
        self.coordinate(G, Ask::Write(Command { identities, ..Command::of(session, write) }));
        self.sync();
        match self.answered().pop() {
            Some(CoordinationAnswer { reply: Ok(R::Session(session)), .. }) => session,
            other => panic!("{other:?}"),
        }
    }

    /// The answers, without what was told on the way.
    fn answered(&mut self) -> Vec<CoordinationAnswer> {
        let answers = self.answers().into_iter();
        let answered = answers.filter_map(|(_, answer)| match answer {
            Answer::Coordinated(answered) => Some(*answered),
            _ => None,
        });
        answered.collect()
    }

    /// Everything that gateways are told, in its order.
    pub(super) fn heard(&mut self) -> Vec<String> {
        let text = |path: &Blob| String::from_utf8_lossy(path).into_owned();
        let short = |(token, answer)| match answer {
            Answer::Coordinated(answered) => match answered.reply {
                Ok(R::Created { path, .. }) => format!("{token} created {}", text(&path)),
                Ok(R::Stat(stat)) => format!("{token} version {}", stat.version),
                Ok(R::Data(data, _)) => format!("{token} data {}", text(&data.unwrap_or_default())),
                Ok(R::Children(names, _)) => format!("{token} {} children", names.len()),
                Ok(other) => format!("{token} {other:?}"),
                Err(code) => format!("{token} {code:?}"),
            },
            Answer::Notice(Notice::Session {
                notice: SessionNotice::Happened(event, ..), ..
            }) => {
                format!("{:?} {}", event.happened, text(&event.path))
            }
            Answer::Notice(Notice::Session { notice, .. }) => format!("{notice:?}"),
            other => format!("{other:?}"),
        };
        self.answers().into_iter().map(short).collect()
    }
}

#[test]
fn whoever_watches_is_told_before_the_change_is_answered_or_seen() {
    let mut story = Story::new();
    let (ann, ben) = (story.open(), story.open());
    story.write(ann, create("/a", false));
    story.sync();
    story.answers();
    let looked = story.of(ben, read("/a", true));
    assert_eq!(story.heard(), [format!("{looked} data ")]);
    let wrote = story.write(ann, set("/a", "x"));
    story.sync();
    let saw = story.of(ben, read("/a", false));
    let expected = ["Data /a".to_owned(), format!("{wrote} version 1"), format!("{saw} data x")];
    assert_eq!(story.heard(), expected);
    // It was set for one change.
    story.write(ann, set("/a", "y"));
    story.sync();
    assert_eq!(story.heard().len(), 1);
}

#[test]
fn a_read_sees_what_its_session_sent_before_it_and_nothing_of_what_it_sent_after() {
    let mut story = Story::new();
    let ann = story.open();
    let created = story.write(ann, create("/a", false));
    let first = story.of(ann, read("/a", false));
    let wrote = story.write(ann, set("/a", "x"));
    let second = story.of(ann, read("/a", false));
    assert_eq!(story.heard(), [""; 0]);
    story.sync();
    let expected = [
        format!("{created} created /a"),
        format!("{first} data "),
        format!("{wrote} version 1"),
        format!("{second} data x"),
    ];
    assert_eq!(story.heard(), expected);
}

#[test]
fn a_session_that_is_silent_for_too_long_ends_and_its_nodes_with_it() {
    let mut story = Story::new();
    let (ann, ben) = (story.open(), story.open());
    story.write(ann, create("/locked", true));
    story.sync();
    story.of(ben, children("/", true));
    story.answers();
    for _ in 0..3 {
        story.pass(u64::try_from(TIMEOUT_MS).unwrap() * 500);
        story.of(ben, OfSession::Ping);
        story.sync();
    }
    let heard = story.heard();
    assert!(heard.contains(&"Children /".to_owned()), "{heard:?}");
    assert!(heard.contains(&"Ended".to_owned()), "{heard:?}");
    let gone = story.write(ann, set("/locked", "x"));
    assert_eq!(story.heard(), [format!("{gone} SessionExpired")]);
    let back = story.resume(G, ann);
    assert_eq!(story.heard(), [format!("{back} SessionExpired")]);
    assert!(story.shard.state().coordination().tree().is_empty());
}

#[test]
fn a_session_is_at_the_gateway_to_which_its_client_came_last() {
    let mut story = Story::new();
    let ann = story.open();
    story.of(ann, children("/", true));
    story.answers();
    let wrong = story.coordinate(H, Ask::Resume { session: ann, password: [8; 16] });
    assert_eq!(story.heard(), [format!("{wrong} SessionExpired")]);
    let back = story.resume(H, ann);
    assert_eq!(story.heard(), ["Moved".to_owned(), format!("{back} Number({TIMEOUT_MS})")]);
    let late = story.write(ann, create("/a", false));
    assert_eq!(story.heard(), [format!("{late} SessionMoved")]);
    // What was watched at the other gateway is not watched here.
    assert_eq!(story.watches(), 0);
    story.coordinate(G, Ask::Leave(ann));
    let there = story.coordinate(H, Ask::Of(ann, OfSession::Ping));
    assert_eq!(story.heard(), [format!("{there} Done")]);
}

#[test]
fn a_new_leader_asks_sessions_to_come_back_and_tells_them_what_they_missed() {
    let mut story = Story::new();
    let ann = story.open();
    story.write(ann, create("/a", false));
    story.sync();
    let since = story.answered().pop().unwrap().zxid;
    story.write(ann, set("/a", "x"));
    story.sync();
    story.answers();
    story.shard.step_down();
    story.shard.lead(story.now, 2);
    let lost = story.of(ann, OfSession::Ping);
    assert_eq!(story.heard(), [format!("{lost} SessionMoved")]);
    let back = story.resume(G, ann);
    let watches = vec![(Blob::from("/a"), Watch::Data), (Blob::from("/"), Watch::Child)];
    let armed = story.of(ann, OfSession::Watch { since, watches });
    let expected =
        [format!("{back} Number({TIMEOUT_MS})"), "Data /a".to_owned(), format!("{armed} Done")];
    assert_eq!(story.heard(), expected);
    assert_eq!(story.watches(), 1);
    // It has its whole time under the new leader.
    story.pass(u64::try_from(TIMEOUT_MS).unwrap() * 900);
    story.sync();
    assert_eq!(story.heard(), [""; 0]);
}

#[test]
fn answers_say_how_much_the_session_was_told_before() {
    let mut story = Story::new();
    let ann = story.open();
    let missing = Read::Exists(Blob::from("/a"));
    let exists = OfSession::Read { identities: Vec::new(), read: missing, watch: true };
    story.of(ann, exists);
    story.write(ann, create("/a", false));
    story.sync();
    let answered = story.answered();
    let told: Vec<u64> = answered.iter().map(|answered| answered.notices).collect();
    assert_eq!(told, [0, 1]);
    assert!(answered[0].zxid < answered[1].zxid && answered[0].zxid > Zxid::default());
}

#[test]
fn what_is_beyond_a_hard_quota_is_refused() {
    let mut story = Story::new();
    let ann = story.open();
    let quota = "/zookeeper/quota/a";
    for path in ["/a", quota, &format!("{quota}/zookeeper_stats")] {
        story.write(ann, create(path, false));
    }
    story.write(ann, create(&format!("{quota}/zookeeper_limits"), false));
    story.write(ann, set(&format!("{quota}/zookeeper_limits"), "countHardLimit=2"));
    story.write(ann, create("/a/before", false));
    story.sync();
    story.heard();
    let refused = story.write(ann, create("/a/after", false));
    story.sync();
    assert_eq!(story.heard(), [format!("{refused} QuotaExceeded")]);
    story.of(ann, children("/a", false));
    assert_eq!(story.heard().pop().unwrap(), format!("{} 1 children", story.token));
}

#[test]
fn a_snapshot_shows_the_tree_as_it_was_when_it_was_begun() {
    let mut story = Story::new();
    let ann = story.open();
    for path in ["/a", "/a/b", "/a/b/c", "/d"] {
        story.write(ann, create(path, path == "/d"));
    }
    story.write(ann, set("/a", "old"));
    story.sync();
    let before = story.shard.state().coordination().clone();
    story.shard.begin_snapshot(9, 1, None);
    let mut parts = story.shard.snapshot_parts(2);
    story.write(ann, set("/a", "new"));
    story.write(ann, create("/a/late", false));
    story.write(ann, Change::Delete { path: Blob::from("/a/b/c"), version: -1 });
    let (identities, write) = (Vec::new(), Write::Close);
    story.coordinate(G, Ask::Write(Command { identities, ..Command::of(ann, write) }));
    story.sync();
    loop {
        let more = story.shard.snapshot_parts(2);
        if more.is_empty() {
            break;
        }
        parts.extend(more);
    }
    let mut reader = Reader::new(0);
    parts.into_iter().for_each(|part| reader.take(part).unwrap());
    let (_, state) = reader.finish().unwrap();
    assert_eq!(*state.coordination(), before);
    assert_ne!(*story.shard.state().coordination(), before);
    assert_eq!(before.tree().len(), 8);
}

/// A leader's story, in which time passes on both clocks.
fn leads() -> Story {
    let mut story = Story::new();
    story.shard.lead(story.now, 1);
    story
}

fn seconds(story: &mut Story, seconds: u64) {
    for _ in 0..seconds {
        story.now.wall_us += 1_000_000;
        story.pass(1_000_000);
        story.sync();
    }
}

fn there(story: &Story, path: &str) -> bool {
    story.shard.state().coordination().tree().get(path.as_bytes()).is_ok()
}

#[test]
fn the_leader_finds_now_and_then_which_nodes_time_has_come() {
    let mut story = leads();
    let ann = story.open();
    story.write(ann, create_so("/c", Lasts::Children));
    story.write(ann, create("/c/x", false));
    story.write(ann, create_so("/t", Lasts::Ttl(25_000)));
    story.of(ann, OfSession::Watch { since: Zxid(i64::MAX), watches: vec![] });
    story.sync();
    seconds(&mut story, 15);
    assert!(there(&story, "/c") && there(&story, "/t"));
    // The session has ended, what it has created for others is there.
    assert!(story.shard.state().coordination().sessions().is_empty());
    assert!(!story.shard.is_quiet() && story.shard.next_timeout(story.now).is_some());
    let ben = story.open();
    let watches = vec![(Blob::from("/c"), Watch::Data)];
    story.of(ben, OfSession::Watch { since: Zxid(i64::MAX), watches });
    story.write(ben, Change::Delete { path: Blob::from("/c/x"), version: -1 });
    story.sync();
    story.answers();
    assert!(there(&story, "/c"));
    seconds(&mut story, 5);
    assert!(!there(&story, "/c") && there(&story, "/t"));
    assert_eq!(story.heard(), ["Deleted /c"]);
    seconds(&mut story, 9);
    assert!(there(&story, "/t"));
    seconds(&mut story, 2);
    assert!(!there(&story, "/t"));
    story.answers();
    assert!(story.shard.is_quiet());
}

#[test]
fn who_does_not_lead_deletes_nothing_and_a_snapshot_has_whose_time_will_come() {
    let mut story = Story::new();
    let ann = story.open();
    story.write(ann, create_so("/t", Lasts::Ttl(1)));
    story.write(ann, create_so("/c", Lasts::Children));
    story.sync();
    story.now.wall_us += 100_000_000;
    story.pass(1_000_000);
    story.sync();
    assert!(there(&story, "/t"));
    story.shard.begin_snapshot(9, 1, None);
    let mut reader = Reader::new(0);
    for part in story.shard.snapshot_parts(100) {
        reader.take(part).unwrap();
    }
    let (_, state) = reader.finish().unwrap();
    assert_eq!(state.coordination(), story.shard.state().coordination());
    assert!(state.coordination().tree().reapable_ms().is_some());
}

#[test]
fn a_session_keeps_its_order_while_the_shard_stands_still_for_a_backup() {
    let mut story = Story::new();
    let (ann, ben) = (story.open(), story.open());
    let freeze = Body::Cut { cut: 9, step: CutStep::Freeze };
    story.ask(freeze);
    story.sync();
    story.answers();
    let wrote = story.write(ann, create("/a", false));
    let saw = story.of(ann, read("/a", false));
    let other = story.of(ben, read("/a", false));
    assert_eq!(story.heard(), [format!("{other} NoNode")]);
    story.ask(Body::Cut { cut: 9, step: CutStep::Release });
    story.answers();
    story.sync();
    assert_eq!(story.heard(), [format!("{wrote} created /a"), format!("{saw} data ")]);
}

#[test]
fn a_read_does_not_overtake_one_before_it_that_waits_for_more_than_it_needs() {
    let mut story = Story::new();
    let (ann, ben) = (story.open(), story.open());
    story.write(ann, create("/a", false));
    let first = story.end_turn().unwrap();
    story.shard.keep(first, 0);
    // A request of another session goes into the next entry, for which ann's read waits as well.
    story.write(ben, set("/a", "x"));
    let before = story.of(ann, read("/a", false));
    story.shard.committed(story.now);
    let behind = story.of(ann, read("/a", false));
    story.sync();
    let heard = story.heard();
    let reads: Vec<_> = heard.iter().filter(|line| line.contains("data")).collect();
    assert_eq!(reads, [&format!("{before} data x"), &format!("{behind} data x")]);
}
