//! Messages between machines carry everything: each operation that a data command can result in,
//! with each of its options, in every message that carries operations, and every reply.
//!
//! The calls are generated from the command table, so a new command is covered at once. Compound
//! commands are covered with their reads and writes.

use adt::command::syntax;
use adt::{
    ArgBuf, Attempt, Blob, Command, Compound, Ctx, Handler, Next, Op, Record, Reply, Timestamp,
    record,
};
use engine::entry::{Apply, Prepare};
use engine::ids::{GatewayId, KeyedOp, ShardId, Token, TxnId};
use engine::message::{Answer, Body, Early, Request, Response};
use engine::node::Parcel;
use smallvec::smallvec;
use wire::peer::PeerFormat;

/// Messages omit the time of a record's change: the shard that takes the record over sets it.
const CTX: Ctx = Ctx { now_ms: 1_700_000_000_000, ts: Timestamp::ZERO, seed: 7 };

/// Description of the difference if a parcel does not read back.
fn wrong(parcel: &Parcel) -> Option<String> {
    let mut bytes = Vec::new();
    let mut format = PeerFormat::default();
    format.encode(parcel, &mut bytes).unwrap();
    match format.decode(&bytes) {
        Ok(Some((found, len)))
            if len == bytes.len() && format!("{found:?}") == format!("{parcel:?}") =>
        {
            None
        }
        other => Some(format!("{parcel:?}\nis read as {other:?}")),
    }
}

fn request(body: Body) -> Parcel {
    let (gateway, token) = (GatewayId::alone(1), Token(7));
    let request = Request { gateway, token, after: None, body };
    Parcel::Request { shard: ShardId(2), term: 3, request }
}

fn response(answer: Answer) -> Parcel {
    Parcel::Response(Response { gateway: GatewayId::alone(1), token: Token(7), answer })
}

/// All messages that can carry an operation.
fn carriers((key, op): &KeyedOp) -> Vec<Parcel> {
    let (key, op) = (key.clone(), op.clone());
    let ops = || smallvec![(key.clone(), op.clone()), (key.clone(), op.clone())];
    let apply = || Apply { ops: ops(), ..Apply::default() };
    let one = Apply { ops: smallvec![(key.clone(), op.clone())], ..Apply::default() };
    let txn = TxnId::default();
    let prepare = Prepare { txn, participants: smallvec![ShardId(1)], apply: apply() };
    let own = vec![op.clone(), op.clone()];
    let read = |op: Op| Body::Read { key: key.clone(), op, fenced: true };
    let at = Timestamp::ZERO;
    vec![
        request(Body::Apply(apply())),
        request(Body::Await { apply: one, timeout_ms: 5 }),
        request(Body::Snapshot {
            ops: ops().into_vec(),
            at,
            fenced: false,
            dated: true,
            as_of: None,
        }),
        request(Body::Prepare { prepare, floor: at }),
        response(Answer::NotTaken(Box::new(Body::Apply(apply())))),
        request(read(op.clone())),
        request(Body::Lock { txn, key: key.clone(), op, own, early: Early::Observed }),
    ]
}

/// Operations, and the replies to them on an absent key and on records of all types.
#[derive(Default)]
struct Found {
    ops: Vec<KeyedOp>,
    replies: Vec<Reply>,
}

impl Found {
    fn see(&mut self, key: &Blob, op: &Op, states: &[Option<Record>]) -> Vec<Reply> {
        self.ops.push((key.clone(), op.clone()));
        let replies = states.iter().map(|state| record::apply(&mut state.clone(), op, &CTX));
        let replies: Vec<Reply> = replies.collect();
        self.replies.extend(replies.iter().cloned());
        replies
    }

    fn see_compound(&mut self, compound: &Compound, states: &[Option<Record>]) {
        let read: Vec<Vec<Reply>> =
            compound.reads.iter().map(|(key, op)| self.see(key, op, states)).collect();
        for state in 0..states.len() {
            let seen: Vec<Reply> = read.iter().map(|replies| replies[state].clone()).collect();
            match (compound.next)(&seen) {
                Next::Plan(plan) => {
                    self.ops.extend(plan.writes);
                    self.replies.push(plan.reply);
                }
                Next::Reads(further) => self.see_compound(&further, states),
            }
        }
    }

    fn see_command(&mut self, command: &Command, states: &[Option<Record>]) {
        match command {
            Command::Single(key, op) => {
                self.see(key, op, states);
                if let Some(compound) = op.chosen_first(key) {
                    self.see_compound(&compound, states);
                }
            }
            Command::Multi { ops, .. } => ops.iter().for_each(|(key, op)| {
                self.see(key, op, states);
            }),
            Command::Compound(compound) => self.see_compound(compound, states),
            Command::Awaiting(awaiting) => {
                self.see(&awaiting.key, &awaiting.op, states);
            }
            Command::Blocking(blocking) => {
                for (key, attempt) in &blocking.attempts {
                    match attempt {
                        Attempt::Take { op, .. } => {
                            self.see(key, op, states);
                        }
                        Attempt::Move(compound) => self.see_compound(compound, states),
                    }
                }
            }
        }
    }
}

fn commands() -> impl Iterator<Item = Command> {
    record::data_commands().flat_map(|spec| {
        let Handler::Data(parse) = spec.handler else { panic!("{} is no data command", spec.name) };
        let calls = syntax::sample_calls(spec).into_iter();
        calls.filter_map(move |call| parse(&call.args()).ok())
    })
}

/// An absent record, and one of each type.
fn states() -> Vec<Option<Record>> {
    let mut states: Vec<Option<Record>> = vec![None];
    for command in commands() {
        let Command::Single(_, op) = command else { continue };
        let mut slot = None;
        record::apply(&mut slot, &op, &CTX);
        let kind = |state: &Option<Record>| state.as_ref().map(|r| r.value.type_name());
        if states.iter().all(|state| kind(state) != kind(&slot)) {
            states.push(slot);
        }
    }
    states
}

fn assert_none(wrong: &[String]) {
    let first: Vec<&str> = wrong.iter().take(5).map(String::as_str).collect();
    assert!(wrong.is_empty(), "{} do not read back:\n{}", wrong.len(), first.join("\n"));
}

#[test]
fn every_operation_is_read_by_another_machine_as_it_was_written() {
    let states = states();
    let mut found = Found::default();
    commands().for_each(|command| found.see_command(&command, &states));
    assert!(found.ops.len() > 1_000 && states.len() > 10, "{} {}", found.ops.len(), states.len());
    let parcels = found.ops.iter().flat_map(carriers);
    assert_none(&parcels.filter_map(|parcel| wrong(&parcel)).collect::<Vec<_>>());
}

#[test]
fn every_reply_is_read_by_another_machine_as_it_was_written() {
    let states = states();
    let mut found = Found::default();
    commands().for_each(|command| found.see_command(&command, &states));
    let parcels = found.replies.into_iter().map(|reply| response(Answer::Reply(reply)));
    assert_none(&parcels.filter_map(|parcel| wrong(&parcel)).collect::<Vec<_>>());
}

#[test]
fn a_range_of_bytes_with_scores_is_read_as_it_was_written() {
    let words = ["zrangestore", "d", "zl", "-", "+", "BYLEX", "LIMIT", "0", "-1"];
    let spec = record::command(b"zrangestore").unwrap();
    let Handler::Data(parse) = spec.handler else { panic!("a data command") };
    let Ok(Command::Compound(compound)) = parse(&ArgBuf::of(words).args()) else {
        panic!("a compound command")
    };
    let parcels: Vec<Parcel> = compound.reads.iter().flat_map(carriers).collect();
    assert_none(&parcels.iter().filter_map(wrong).collect::<Vec<_>>());
}
