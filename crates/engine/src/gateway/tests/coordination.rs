//! Clients of the coordination service: requests to the tree's shard, and messages to clients.

use super::*;
use crate::coordination::SpreadStep;
use crate::coordination::spread::Spread;
use crate::coordination::tree::acl::Rules;
use crate::coordination::{
    Acl, Ask, Code, CoordinationAnswer, Happened, Identity, OfSession, Read, Reply as R,
    SessionNotice, WatchedEvent, Write, Zxid,
};
use crate::gateway::coordination::{ClientRequest, Connect};
use crate::gateway::{CoordinationClient, Said};
use adt::Blob;

const ANN: crate::coordination::TreeSessionId = crate::coordination::TreeSessionId(7);

impl Story {
    /// Lets a client send its first message. The first client waits until the number of the tree's shards is
    /// known. Returns the request to the shard that follows.
    fn connects(&mut self, client: CoordinationClient, connect: Connect) -> Vec<(u64, Ask)> {
        self.gateway.coordination(self.now).connects(client, connect);
        let (asked, _) = self.heard();
        let over = Write::Spread(SpreadStep::Over(Spread::NOT));
        match &asked[..] {
            [(token, Ask::Write(command))] if command.write == over => {
                self.coordinated(*token, Ok(R::Number(1)), 0);
                self.heard().0
            }
            _ => asked,
        }
    }

    pub(super) fn came(&mut self) -> CoordinationClient {
        let who = Identity { scheme: Blob::from("ip"), id: Blob::from("::1") };
        self.gateway.coordination(self.now).came(who)
    }

    /// Requests to the shard, and messages to clients.
    fn heard(&mut self) -> (Vec<(u64, Ask)>, Vec<Said>) {
        let (mut asked, mut told) = (Vec::new(), Vec::new());
        while let Some(output) = self.gateway.poll() {
            match output {
                Output::Shard { shard: ShardId(0), request: Request { token, body, .. } } => {
                    let Body::Coordinate(ask) = body else { panic!("{body:?}") };
                    asked.push((token.0, *ask));
                }
                Output::Coordination { said, .. } => told.push(said),
                other => panic!("not in these stories: {other:?}"),
            }
        }
        (asked, told)
    }

    fn coordinated(&mut self, token: u64, reply: Result<R, Code>, notices: u64) {
        let answered = CoordinationAnswer { reply, zxid: Zxid(9), notices };
        self.answer(token, Answer::Coordinated(Box::new(answered)));
    }

    /// Client with a session.
    fn connected(&mut self) -> CoordinationClient {
        let client = self.came();
        let asked = self.connects(client, Connect::default());
        assert!(matches!(&asked[0].1, Ask::Write(command)
            if matches!(command.write, Write::Open { timeout_ms: 4_000, .. })));
        self.coordinated(asked[0].0, Ok(R::Session(ANN)), 0);
        let (_, told) = self.heard();
        assert!(matches!(told[..], [Said::Connected { session: ANN, timeout_ms: 4_000, .. }]));
        client
    }

    fn notice(&mut self, notice: SessionNotice) {
        self.answer(0, Answer::Notice(Notice::Session { shard: ShardId(0), session: ANN, notice }));
    }
}

/// Change of which a client is notified, and the latest change that it knows of.
fn happened(event: WatchedEvent, at: i64, zxid: i64) -> Said {
    Said::Happened { event, zxid: Zxid(zxid), at: Zxid(at) }
}

fn answered(reply: Result<R, Code>, zxid: i64) -> Said {
    Said::Answered { reply, zxid: Zxid(zxid), at: Zxid(zxid) }
}

#[test]
fn requests_are_answered_in_their_order_and_what_is_told_comes_between() {
    let mut story = Story::new();
    let client = story.connected();
    let read = Read::Exists(Blob::from("/a"));
    let read = OfSession::Read { identities: Vec::new(), read, watch: true };
    story.gateway.coordination(story.now).asks(client, ClientRequest::Of(read));
    story.gateway.coordination(story.now).asks(client, ClientRequest::Refused(Code::Marshalling));
    let (asked, told) = story.heard();
    assert_eq!((asked.len(), told), (1, vec![]));
    let event = WatchedEvent { happened: Happened::Created, path: Blob::from("/a") };
    story.notice(SessionNotice::Happened(event.clone(), Zxid(8), Rules::default()));
    story.coordinated(asked[0].0, Err(Code::NoNode), 1);
    let expected = [
        happened(event, 8, 9),
        answered(Err(Code::NoNode), 9),
        answered(Err(Code::Marshalling), 9),
    ];
    assert_eq!(story.heard().1, expected);
}

#[test]
fn an_answer_after_a_lost_notice_is_not_passed_on() {
    let mut story = Story::new();
    let client = story.connected();
    story.gateway.coordination(story.now).asks(client, ClientRequest::Of(OfSession::Ping));
    let (asked, _) = story.heard();
    story.coordinated(asked[0].0, Ok(R::Done), 1);
    assert_eq!(story.heard().1, [Said::Close]);
    story.gateway.coordination(story.now).left(client);
    assert_eq!(story.heard().0, [(0, Ask::Leave(ANN))]);
}

#[test]
fn who_comes_back_replaces_the_connection_before_it_and_is_not_left_with_it() {
    let mut story = Story::new();
    let before = story.connected();
    let after = story.came();
    let connect = Connect { session: Some(ANN), ..Connect::default() };
    let asked = story.connects(after, connect);
    story.gateway.coordination(story.now).left(before);
    assert_eq!(story.heard(), (vec![], vec![]), "the session is on its way here");
    story.coordinated(asked[0].0, Ok(R::Number(6_000)), 0);
    assert!(matches!(story.heard().1[..], [Said::Connected { timeout_ms: 6_000, .. }]));
    story.notice(SessionNotice::Moved);
    assert_eq!(story.heard().1, [Said::Close]);
}

#[test]
fn a_session_that_has_ended_and_one_that_sees_more_than_there_is_are_turned_away() {
    let mut story = Story::new();
    for (seen, reply, told) in [
        (0, Err(Code::SessionExpired), vec![Said::Expired, Said::Close]),
        (10, Ok(R::Number(6_000)), vec![Said::Close]),
    ] {
        let client = story.came();
        let connect = Connect { session: Some(ANN), seen: Zxid(seen), ..Connect::default() };
        let asked = story.connects(client, connect);
        story.coordinated(asked[0].0, reply, 0);
        assert_eq!(story.heard().1, told);
    }
}

#[test]
fn whoever_may_not_read_a_node_hears_nothing_of_it() {
    let mut story = Story::new();
    let client = story.connected();
    let ann = Identity { scheme: Blob::from("digest"), id: Blob::from("ann:hash") };
    let hers = Rules::restored(vec![Acl { perms: Acl::READ, who: ann.clone() }]);
    let event = WatchedEvent { happened: Happened::Created, path: Blob::from("/a") };
    story.notice(SessionNotice::Happened(event.clone(), Zxid(7), Rules::default()));
    assert_eq!(story.heard().1, [], "it watches nothing");
    let (identities, read) = (Vec::new(), Read::Exists(Blob::from("/a")));
    let watching = OfSession::Read { identities, read, watch: true };
    story.gateway.coordination(story.now).asks(client, ClientRequest::Of(watching));
    let (asked, _) = story.heard();
    story.coordinated(asked[0].0, Err(Code::NoNode), 0);
    story.heard();
    story.notice(SessionNotice::Happened(event.clone(), Zxid(8), hers.clone()));
    assert_eq!(story.heard().1, []);
    story.gateway.coordination(story.now).asks(client, ClientRequest::Proved(ann));
    story.notice(SessionNotice::Happened(event.clone(), Zxid(10), hers));
    let told = story.heard().1;
    assert_eq!(told, [answered(Ok(R::Done), 9), happened(event, 10, 10)]);
}
