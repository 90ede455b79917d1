//! Hand-made histories of a coordination service: a correct one, and the verdict about each way in
//! which it could be wrong.

use check::coordination::{
    Answer, Asked, Change, Connection, Happened, Heard, History, Kind, Last, Reply, Request,
    Session, Stat, check, check_together, code,
};

/// A history under construction: clients send requests one after the other and are answered at
/// once.
struct Story {
    history: History,
    now_us: u64,
}

const ANN: usize = 0;
const BEN: usize = 1;

impl Story {
    /// Two sessions, begun by the changes 1 and 2.
    fn new() -> Self {
        let session = |id| Session {
            id,
            timeout_us: 6_000_000,
            connections: vec![Connection { time_us: id as u64, ..Connection::default() }],
            ..Session::default()
        };
        let history = History { sessions: vec![session(1), session(2)], ..History::default() };
        Self { history, now_us: 10 }
    }

    fn connection(&mut self, who: usize) -> &mut Connection {
        self.history.sessions[who].connections.last_mut().unwrap()
    }

    fn ask(&mut self, who: usize, request: Request, zxid: Option<i64>) {
        self.now_us += 10;
        let time_us = self.now_us;
        self.connection(who).asked.push(Asked { time_us, request, zxid, parts: Vec::new() });
    }

    fn answer(&mut self, who: usize, zxid: i64, answer: Answer) {
        self.now_us += 10;
        let time_us = self.now_us;
        self.connection(who).heard.push(Heard::Answer { time_us, zxid, answer });
    }

    fn told(&mut self, who: usize, zxid: i64, happened: Happened, path: &str) {
        self.now_us += 10;
        let (time_us, path) = (self.now_us, path.to_owned());
        self.connection(who).heard.push(Heard::Told { time_us, zxid, happened, path });
    }

    fn write(&mut self, who: usize, zxid: i64, request: Request, answer: Answer) {
        self.ask(who, request, Some(zxid));
        self.answer(who, zxid, answer);
    }

    fn read(&mut self, who: usize, zxid: i64, request: Request, answer: Answer) {
        self.ask(who, request, None);
        self.answer(who, zxid, answer);
    }

    /// A client reconnects.
    fn comes_back(&mut self, who: usize) {
        self.now_us += 10;
        let time_us = self.now_us;
        let connection = Connection { time_us, ..Connection::default() };
        self.history.sessions[who].connections.push(connection);
    }

    /// The kinds of all anomalies.
    fn wrong(&self) -> Vec<String> {
        let verdict = check(&self.history);
        assert_eq!(verdict.valid, verdict.anomalies.is_empty());
        let mut kinds: Vec<String> = verdict.anomalies.into_iter().map(|a| a.kind).collect();
        kinds.dedup();
        kinds
    }
}

fn create(path: &str, ephemeral: bool, sequential: bool) -> Request {
    let (path, data) = (path.to_owned(), "x".to_owned());
    Request::Change(Change::Create { path, data, ephemeral, sequential })
}

fn delete(path: &str) -> Request {
    Request::Change(Change::Delete { path: path.to_owned(), version: -1 })
}

fn created(path: &str) -> Answer {
    Ok(Reply::Created(path.to_owned()))
}

fn exists(path: &str, watch: bool) -> Request {
    Request::Exists(path.to_owned(), watch)
}

/// The stat of a node that was created by a change and not changed since.
fn stat(zxid: i64, owner: i64) -> Stat {
    let (czxid, mzxid, pzxid, data_length) = (zxid, zxid, zxid, 1);
    Stat { czxid, mzxid, pzxid, owner, data_length, ..Stat::default() }
}

/// Ann creates a node that ends with her session, for which Ben waits.
fn right() -> Story {
    let mut story = Story::new();
    story.read(BEN, 2, exists("/a", true), Err(code::NO_NODE));
    story.write(ANN, 3, create("/a", true, false), created("/a"));
    story.told(BEN, 3, Happened::Created, "/a");
    story.read(BEN, 3, exists("/a", true), Ok(Reply::Stat(stat(3, 1))));
    story
}

#[test]
fn a_history_that_is_right_is_valid() {
    let mut story = right();
    story.write(ANN, 4, Request::Close, Ok(Reply::Done));
    story.told(BEN, 4, Happened::Deleted, "/a");
    story.read(BEN, 4, exists("/a", false), Err(code::NO_NODE));
    story.history.last = Some(Last { nodes: Vec::new(), sessions: vec![2] });
    assert_eq!(story.wrong(), [""; 0]);
}

#[test]
fn answers_of_changes_and_reads_follow_the_guide() {
    let mut story = right();
    story.write(ANN, 4, create("/a", false, false), created("/a"));
    assert_eq!(story.wrong(), ["wrong-answer"]);
    let mut story = right();
    story.read(BEN, 3, exists("/a", false), Ok(Reply::Stat(stat(3, 2))));
    assert_eq!(story.wrong(), ["wrong-read"]);
    let mut story = right();
    let set = Change::Set { path: "/b".to_owned(), data: String::new(), version: -1 };
    let multi = Request::Multi(vec![Change::Check { path: "/a".to_owned(), version: 0 }, set]);
    let all = vec![Err(code::OK), Err(code::NO_NODE)];
    story.write(ANN, 4, multi.clone(), Ok(Reply::Multi(all)));
    assert_eq!(story.wrong(), [""; 0]);
    story.write(ANN, 5, multi, Ok(Reply::Multi(vec![Ok(Reply::Done), Err(code::NO_NODE)])));
    assert_eq!(story.wrong(), ["wrong-answer"]);
}

#[test]
fn a_node_ends_with_its_session_and_not_before() {
    let mut story = right();
    story.write(ANN, 4, Request::Close, Ok(Reply::Done));
    story.told(BEN, 4, Happened::Deleted, "/a");
    story.history.last =
        Some(Last { nodes: vec![("/a".into(), "x".into(), 1)], sessions: vec![2] });
    assert_eq!(story.wrong(), ["node-kept"]);
    let mut story = right();
    story.history.last = Some(Last { nodes: Vec::new(), sessions: vec![1, 2] });
    assert_eq!(story.wrong(), ["node-lost"]);
}

#[test]
fn no_number_of_a_sequential_node_is_given_twice() {
    let mut story = Story::new();
    story.write(ANN, 3, create("/n-", false, true), created("/n-0000000000"));
    story.write(ANN, 4, delete("/n-0000000000"), Ok(Reply::Done));
    story.write(ANN, 5, create("/n-", false, true), created("/n-0000000001"));
    assert_eq!(story.wrong(), [""; 0]);
    story.write(ANN, 6, create("/n-", false, true), created("/n-0000000000"));
    assert_eq!(story.wrong(), ["number-reused"]);
}

#[test]
fn nothing_is_older_than_what_was_known_when_it_was_asked() {
    let mut story = right();
    story.read(ANN, 2, exists("/b", false), Err(code::NO_NODE));
    assert_eq!(story.wrong(), ["stale-read", "order-of-session", "heard-backwards"]);
    // A change of a session that no other knew of may be older.
    let mut story = Story::new();
    story.ask(ANN, create("/a", false, false), Some(4));
    story.ask(BEN, create("/b", false, false), Some(3));
    story.answer(ANN, 4, created("/a"));
    assert_eq!(story.wrong(), [""; 0]);
}

#[test]
fn a_session_takes_effect_in_its_order_and_without_holes() {
    let mut story = Story::new();
    story.ask(ANN, create("/a", false, false), Some(4));
    story.ask(ANN, create("/b", false, false), Some(3));
    assert_eq!(story.wrong(), ["order-of-session"]);
    let mut story = Story::new();
    story.ask(ANN, create("/a", false, false), None);
    story.ask(ANN, create("/b", false, false), Some(3));
    assert_eq!(story.wrong(), ["hole-in-session"]);
    // Over several connections: the late request took effect after the session had continued
    // elsewhere.
    let mut story = Story::new();
    story.ask(ANN, create("/a", false, false), Some(4));
    story.comes_back(ANN);
    story.read(ANN, 3, exists("/b", false), Err(code::NO_NODE));
    assert_eq!(story.wrong(), ["order-of-session"]);
}

#[test]
fn a_watch_reports_each_change_once_before_an_answer_shows_it() {
    // The notification comes after the answer.
    let mut story = Story::new();
    story.read(BEN, 2, exists("/a", true), Err(code::NO_NODE));
    story.write(ANN, 3, create("/a", false, false), created("/a"));
    story.read(BEN, 3, exists("/a", false), Ok(Reply::Stat(stat(3, 0))));
    story.told(BEN, 3, Happened::Created, "/a");
    assert_eq!(story.wrong(), ["untold"]);
    // Duplicate notification, one of an event that did not happen, and one without a watch.
    let mut story = right();
    story.told(BEN, 3, Happened::Created, "/a");
    assert_eq!(story.wrong(), ["told-of-nothing"]);
    let mut story = right();
    story.told(BEN, 4, Happened::Deleted, "/a");
    story.read(BEN, 4, Request::Ping, Ok(Reply::Done));
    assert_eq!(story.wrong(), ["told-of-nothing"]);
    let mut story = right();
    story.told(ANN, 3, Happened::Created, "/a");
    assert_eq!(story.wrong(), ["told-of-nothing"]);
}

#[test]
fn a_reconnecting_client_learns_of_missed_changes() {
    let comes_back = || {
        let mut story = right();
        story.comes_back(BEN);
        story.write(ANN, 4, delete("/a"), Ok(Reply::Done));
        let watches = vec![("/a".to_owned(), Kind::Data), ("/".to_owned(), Kind::Recursive)];
        story.ask(BEN, Request::Again(3, watches), None);
        story
    };
    let mut story = comes_back();
    story.answer(BEN, 4, Ok(Reply::Done));
    assert_eq!(story.wrong(), ["untold"]);
    let mut story = comes_back();
    story.told(BEN, 4, Happened::Deleted, "/a");
    story.answer(BEN, 4, Ok(Reply::Done));
    // A permanent watch remains.
    story.write(ANN, 5, create("/b", false, false), created("/b"));
    story.told(BEN, 5, Happened::Created, "/b");
    story.read(BEN, 5, Request::Ping, Ok(Reply::Done));
    assert_eq!(story.wrong(), [""; 0]);
}

#[test]
fn answered_changes_are_in_the_log_and_unrequested_ones_are_not() {
    let mut story = right();
    story.ask(ANN, create("/b", false, false), None);
    story.answer(ANN, 4, created("/b"));
    assert_eq!(story.wrong(), ["lost-change"]);
    let mut story = right();
    story.history.strays.push((1, 4));
    assert_eq!(story.wrong(), ["stray-change"]);
}

#[test]
fn a_session_is_not_ended_before_its_time() {
    let ends = |after_us: u64| {
        let mut story = right();
        story.history.ends.push((1, 4));
        story.now_us += after_us;
        story.told(BEN, 4, Happened::Deleted, "/a");
        story.read(BEN, 4, Request::Ping, Ok(Reply::Done));
        story
    };
    assert_eq!(ends(1_000_000).wrong(), ["early-expiry"]);
    assert_eq!(ends(6_000_000).wrong(), [""; 0]);
    let mut story = right();
    story.history.sessions[ANN].expired_us = Some(9_000_000);
    assert_eq!(story.wrong(), ["expired-without-end"]);
}

/// Ann has nodes at two services, and her session has ended at both.
fn two_services() -> [Story; 2] {
    let mut stories = [Story::new(), Story::new()];
    stories[1].history.sessions.iter_mut().for_each(|session| session.elsewhere = true);
    stories[0].write(ANN, 3, create("/a", true, false), created("/a"));
    stories[1].now_us = stories[0].now_us;
    stories[1].write(ANN, 4, create("/b", true, false), created("/b"));
    for (story, (closing, end)) in stories.iter_mut().zip([(5, 8), (6, 9)]) {
        story.now_us = 7_000_000;
        story.history.closings.push((1, closing));
        story.history.ends.push((1, end));
    }
    stories
}

/// Anomalies of each service, and of both together.
fn wrong_together(stories: &[Story; 2], order: [i64; 2]) -> Vec<String> {
    let parts = stories.each_ref().map(|story| story.history.clone());
    let mut whole = Story::new();
    for (path, zxid) in ["/a", "/b"].into_iter().zip(order) {
        whole.write(ANN, zxid, create(path, true, false), created(path));
    }
    let verdict = check_together(&whole.history, &parts, |_| Vec::new());
    let kinds = verdict.anomalies.into_iter().map(|anomaly| anomaly.kind);
    stories.iter().flat_map(Story::wrong).chain(kinds).collect()
}

#[test]
fn a_session_has_one_order_at_all_services() {
    assert_eq!(wrong_together(&two_services(), [3, 4]), [""; 0]);
    assert_eq!(wrong_together(&two_services(), [4, 3]), ["order-of-session"]);
}

#[test]
fn no_client_sees_half_of_the_end_of_a_session() {
    let own = || Ok(Reply::Stat(stat(4, 1)));
    // Until a client has seen the end anywhere, the nodes may exist.
    let mut stories = two_services();
    stories[1].read(BEN, 6, exists("/b", false), own());
    stories[0].now_us = stories[1].now_us;
    stories[0].read(BEN, 8, exists("/a", false), Err(code::NO_NODE));
    assert_eq!(wrong_together(&stories, [3, 4]), [""; 0]);
    stories[1].now_us = stories[0].now_us;
    stories[1].read(BEN, 7, exists("/b", false), own());
    assert_eq!(wrong_together(&stories, [3, 4]), ["half-an-end"]);
}

/// Sessions that send requests to two services, `/a` and `/b`, without waiting: each sets both, in
/// its own order. `order` has the number of each change at its service, in the order of sending:
/// first Ann's, then Ben's.
fn sent_ahead(order: [[i64; 2]; 2], overlap: bool) -> Vec<String> {
    let mut story = Story::new();
    let paths = [["/a", "/b"], ["/b", "/a"]];
    for (session, (paths, zxids)) in [ANN, BEN].into_iter().zip(paths.into_iter().zip(order)) {
        for (path, zxid) in paths.into_iter().zip(zxids) {
            story.write(session, zxid, set(path, session), Ok(Reply::Stat(stat(zxid, 0))));
        }
    }
    if overlap {
        // All requests are sent before any answer arrives.
        let connections = story.history.sessions.iter_mut().flat_map(|s| &mut s.connections);
        let asked = connections.flat_map(|connection| &mut connection.asked);
        asked.for_each(|asked| asked.time_us = 0);
    }
    let concerns = |request: &Request| match request {
        Request::Change(Change::Set { path, .. }) => {
            vec![(usize::from(path == "/b"), vec![path.clone().into_bytes()])]
        }
        _ => Vec::new(),
    };
    let verdict = check_together(&story.history, &[], concerns);
    verdict.anomalies.into_iter().map(|anomaly| anomaly.kind).collect()
}

fn set(path: &str, session: usize) -> Request {
    let (path, data) = (path.to_owned(), format!("{session}"));
    Request::Change(Change::Set { path, data, version: -1 })
}

#[test]
fn there_is_one_order_at_all_services() {
    for overlap in [false, true] {
        assert_eq!(sent_ahead([[11, 12], [13, 14]], overlap), [""; 0], "{overlap}");
    }
    // Each is second where the other one was first.
    assert_eq!(sent_ahead([[12, 13], [14, 11]], true), ["no-order"]);
    // Ben's came first, but was sent when Ann's was answered.
    assert_eq!(sent_ahead([[13, 14], [11, 12]], true), [""; 0]);
    assert!(sent_ahead([[13, 14], [11, 12]], false).contains(&"no-order".to_owned()));
}

#[test]
fn a_session_that_has_begun_to_end_changes_nothing_more() {
    let mut stories = two_services();
    stories[0].write(ANN, 6, create("/c", true, false), created("/c"));
    assert_eq!(wrong_together(&stories, [3, 4])[0], "wrong-answer");
}
