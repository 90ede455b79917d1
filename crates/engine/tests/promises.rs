//! Promises of a machine as a member of a group bind it when it joins again.

use engine::ids::{MachineId, ShardId};
use engine::replication::{Membership, Pace, Promises, RaftGroup, Recovered};
use raft::eraftpb::{Message, MessageType};

/// Replica on machine 1 of a group founded by machines 1 to 3, with an empty log.
fn replica(promises: Option<Promises>) -> RaftGroup {
    let founders = [1, 2, 3].map(MachineId).to_vec();
    let membership = Membership::clustered(MachineId(1), founders);
    let recovered = Recovered { promises, ..Recovered::default() };
    RaftGroup::new(Pace::default(), (ShardId(0), membership), recovered, 7, 0).unwrap()
}

/// Machine 2 asks for a vote in a term; its log ends with entry 22 of term 4. Returns the answers
/// of machine 1.
fn ask(group: &mut RaftGroup, term: u64) -> Vec<Message> {
    let mut message = Message::default();
    message.set_msg_type(MessageType::MsgRequestVote);
    (message.from, message.to, message.term) = (2, 1, term);
    (message.index, message.log_term) = (22, 4);
    group.step(0, message).unwrap();
    while let Some(persist) = group.take_persist() {
        group.persisted(persist.number);
    }
    group.take_messages()
}

#[test]
fn a_newcomer_votes_but_not_one_that_has_acknowledged_more() {
    let answers = ask(&mut replica(None), 6);
    assert!(answers.iter().any(|m| m.get_msg_type() == MessageType::MsgRequestVoteResponse));
    let last = (23, 4);
    let mut again = replica(Some(Promises { term: 5, vote: 3, last }));
    assert_eq!(ask(&mut again, 6), []);
    // It does not stand for election either, however long it hears of no leader.
    for _ in 0..200 {
        again.tick(0);
    }
    assert_eq!(again.take_messages(), []);
    assert_eq!(
        again.promises().last,
        last,
        "it is not forgotten if the replica is removed once more"
    );
}

#[test]
fn a_vote_is_given_once_in_a_term() {
    // It has every entry that it has acknowledged, but has voted for machine 3 in term 5.
    let mut again = replica(Some(Promises { term: 5, vote: 3, last: (0, 0) }));
    let answers = ask(&mut again, 5);
    assert!(answers.iter().all(|m| m.reject), "{answers:?}");
    assert_eq!((again.promises().term, again.promises().vote), (5, 3));
}
