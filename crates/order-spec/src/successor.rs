//! Successors of a lock: the next holder is named in the log before the release, and may be
//! notified when the release arrives.
//!
//! One shard, one lock. While the lock is held, the leader names the first waiter, by a record. If
//! that record is durable when the release arrives, the successor receives its token at once:
//! *early*, before the release is durable. A leader may therefore be lost after it has notified the
//! successor, and the release with it. See `docs/adr/0018-named-successor.md`.
//!
//! In some stories there are two successors, and the second may be notified before the release of
//! the first is durable, if all records in flight pass the lock to successors whose naming is
//! durable.
//!
//! **End of a tenure.** A client's tenure ends for itself when it sends its release, and for all
//! others when a record is durable that takes the lock from it: its lease has ended, or the lock is
//! deleted. If the client was notified early, such a record counts only if it was written after
//! that: its lease begins with the notification, and no earlier time is part of it
//! ([`Entry::knew`]). A client that is notified of a durable grant has a lease that began with a
//! record, and may learn late that it has held the lock for a while.
//!
//! **Revoking a grant.** A client that leaves without having been notified is removed by a record.
//! Two rules for that are not obvious, and were found by checking all executions:
//!
//! - A record of an earlier leader is not revoked. That leader may have notified a client: another
//!   copy of the request, over a newer connection than that of the copy that leaves. The lease ends
//!   such a grant.
//! - No client is notified of a grant that a record in the log revokes, durable or not. The client
//!   that has left may have asked again by the time the grant is durable, under the same ticket.
//!
//! The records of a deposed leader are lost in any case. Only its notifications matter.

mod leader;
mod lock;
mod state;
mod story;

pub use leader::Leader;
pub use lock::{ClientId, Entry, Held, Lock, Record, Token, Tokens};
pub use state::{Answer, Book, Client, Fault, Phase, State};
pub use story::Story;

use state::bit;
use stateright::{Model, Property};

/// A client that received a token is alone until its tenure ends.
pub const ALONE: &str = "one holder at a time";
/// Tokens grow in the order of tenures, and each belongs to one client.
pub const TOKENS: &str = "tokens grow";
/// A holder of the lock is not refused.
pub const KEPT: &str = "no lock is lost without reason";
/// Writes to the protected resource are in the order of tokens.
pub const GUARDED: &str = "writes in the order of tokens";
/// Every waiter is notified in the end.
pub const TOLD: &str = "no client waits for ever";

/// A deliberately broken rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A leader notifies early without knowing that there is no later leader.
    TellWithoutLease,
    /// A leader notifies early although the naming is not durable.
    TellBeforeNamed,
    /// A leader notifies early although another record about the lock is in flight.
    TellBehindOthers,
    /// The token of a successor proves nothing.
    NoProof,
    /// The token of a second successor proves nothing.
    ProveFirst,
    /// The naming of a successor is known to the leader that wrote it, and to no later one.
    ForgetNamed,
    /// When the lease of the holder ends, the lock becomes free despite successors.
    EndForgets,
    /// The answer of an earlier leader is accepted for a repeated request. This does no harm: such
    /// an answer is not revoked.
    AnyAsking,
    /// A client that leaves revokes the record of an earlier leader.
    TakeBackInherited,
    /// A client that leaves revokes a grant of which another copy of its request was notified.
    TakeBackTold,
    /// A client is notified of a grant that a record in flight revokes.
    TellTakenBack,
    /// The protected resource does not check the token.
    NoFence,
}

/// A step of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A client's request arrives at the newest leader.
    Ask(ClientId),
    /// A client's request arrives at a deposed leader.
    AskOld(ClientId),
    /// A client loses its connection and asks over another one.
    Reconnect(ClientId),
    /// The gateway of the lost connection, which has not noticed, asks the newest leader.
    AskForLost(ClientId),
    /// The gateway of the lost connection notices.
    LeaveForLost(ClientId),
    /// The leader loses the connection to the gateway of a waiter, which asks again.
    Drop(ClientId),
    /// A client leaves, and the leader that it has asked learns of it.
    GiveUp(ClientId),
    /// A client takes an answer.
    Take(Answer),
    /// A client writes to the protected resource.
    Write(ClientId),
    /// A client's renewal arrives at the newest leader.
    Renew(ClientId),
    /// A client sends its release.
    SendRelease(ClientId),
    /// The release arrives at the newest leader.
    Release(ClientId),
    /// The release arrives at a deposed leader.
    ReleaseAtOld(ClientId),
    /// The lease of the holder ends.
    EndLease,
    /// The lock is deleted.
    Break,
    /// The next record becomes durable.
    Durable,
    /// A deposed leader learns that its next record is durable.
    OldDurable,
    /// A new leader takes over, with this many of the records that were not durable.
    Depose(usize),
}

/// Guarantees beyond the promised ones, to find executions that violate them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// A release in time is never refused, even if the next holder had to prove it.
    ReleaseIsKnown,
    /// No client waits for the end of a lease that is not in use.
    NoIdleLease,
}

/// The protocol in a story.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Possible events.
    pub story: Story,
    /// The broken rules.
    pub broken: &'static [Mutant],
    /// Additional guarantee to check.
    pub wish: Option<Wish>,
}

impl Spec {
    /// Whether a rule is broken.
    pub fn is(&self, mutant: Mutant) -> bool {
        self.broken.contains(&mutant)
    }

    /// Whether a client accepts an answer.
    fn hears(&self, client: &Client, answer: &Answer) -> bool {
        let ignores = !self.is(Mutant::AnyAsking) && answer.asking != client.asking;
        client.phase == Phase::Waits && !ignores && answer.asking >= client.since
    }

    /// Removes a client from the leader's queue, if it is there.
    fn leave(&self, state: &mut State, turn: (ClientId, u8)) {
        if state.leader.leave(turn) {
            state.leader.work(self, &state.book);
        }
    }

    fn take(state: &mut State, answer: Answer) {
        let Answer { client, token, is_late, .. } = answer;
        let book = &mut state.book;
        state.clients[usize::from(client)].phase = Phase::Holds(token);
        if is_late {
            book.ended &= !bit(token);
        }
        if book.ended & bit(token) == 0 && book.largest.is_some_and(|largest| largest >= token) {
            book.fault = Some(Fault::Disorder);
        }
        book.largest = book.largest.max(Some(token));
    }

    fn write(&self, state: &mut State, client: ClientId) {
        let holds = state.is_in_tenure(client);
        let client = &mut state.clients[usize::from(client)];
        client.wrote = true;
        let token = client.token();
        if token >= state.book.seen {
            state.book.seen = token;
        } else if self.is(Mutant::NoFence) {
            state.book.fault = Some(Fault::Overwritten);
        } else if holds {
            state.book.fault = Some(Fault::Refused);
        }
    }

    fn durable(&self, state: &mut State) {
        let before = state.leader.lock;
        let (entry, is_done) = state.leader.advance(self, &mut state.book);
        let mut out = match entry.record {
            Record::EndLease => before.holder.map_or(0, |held| bit(held.token)),
            Record::Break => before.holders().fold(0, |all, held| all | bit(held.token)),
            _ => 0,
        };
        out &= entry.knew | !state.book.early;
        state.book.ended |= out;
        let (Record::Release { token, .. } | Record::Renew(token)) = entry.record else {
            return state.leader.work(self, &state.book);
        };
        let larger = state.book.largest > Some(token) && self.wish != Some(Wish::ReleaseIsKnown);
        let is_lost = state.book.ended & bit(token) != 0;
        let is_again = state.book.released & bit(token) != 0;
        let asks = state.clients.iter().any(|client| match entry.record {
            Record::Release { .. } => client.phase == Phase::Releases(token) && !is_again,
            _ => client.phase == Phase::Holds(token),
        });
        if !is_done && asks && !larger && !is_lost {
            state.book.fault = Some(Fault::Refused);
        }
        if matches!(entry.record, Record::Release { .. }) {
            state.book.released |= bit(token);
        }
        state.leader.work(self, &state.book);
    }

    fn depose(&self, state: &mut State, kept: usize) {
        let new = state.leader.next(self, kept);
        let shared = new.end();
        state.deposed = Some((std::mem::replace(&mut state.leader, new), shared));
    }

    fn client_step(&self, state: &mut State, action: Action) {
        let term = state.leader.term;
        match action {
            Action::Ask(id) => {
                let client = &mut state.clients[usize::from(id)];
                client.asking += u8::from(client.at.is_some());
                client.at = Some(term);
                state.leader.queue((id, client.asking));
            }
            Action::AskOld(id) => {
                let client = &mut state.clients[usize::from(id)];
                client.asking += u8::from(client.at.is_some());
                if let Some((old, _)) = &mut state.deposed {
                    client.at = Some(old.term);
                    old.queue((id, client.asking));
                }
            }
            Action::Reconnect(id) => {
                let client = &mut state.clients[usize::from(id)];
                client.copy = Some((client.asking, client.at));
                client.asking += 1;
                (client.since, client.at) = (client.asking, None);
            }
            Action::AskForLost(id) => {
                if let Some((asking, at)) = &mut state.clients[usize::from(id)].copy {
                    *at = Some(term);
                    state.leader.queue((id, *asking));
                }
            }
            Action::LeaveForLost(id) => {
                if let Some((asking, _)) = state.clients[usize::from(id)].copy.take() {
                    self.leave(state, (id, asking));
                }
            }
            Action::Drop(id) => {
                let client = &mut state.clients[usize::from(id)];
                let turn = (id, client.asking);
                client.asking += 1;
                client.at = None;
                self.leave(state, turn);
            }
            Action::GiveUp(id) => {
                state.clients[usize::from(id)].phase = Phase::Gone;
                self.leave(state, (id, state.clients[usize::from(id)].asking));
            }
            Action::Take(answer) => Self::take(state, answer),
            Action::Write(id) => self.write(state, id),
            Action::SendRelease(id) => {
                let client = &mut state.clients[usize::from(id)];
                client.phase = client.token().map_or(client.phase, Phase::Releases);
            }
            _ => {}
        }
    }

    fn shard_step(&self, state: &mut State, action: Action) {
        let token = |id: ClientId| state.clients[usize::from(id)].token().unwrap_or_default();
        match action {
            Action::Renew(id) => state.leader.write(Record::Renew(token(id)), &state.book),
            Action::Release(id) => state.leader.release(self, &mut state.book, token(id), true),
            Action::ReleaseAtOld(id) => {
                let token = token(id);
                if let Some((old, _)) = &mut state.deposed {
                    old.release(self, &mut state.book, token, false);
                }
            }
            Action::EndLease => state.leader.write(Record::EndLease, &state.book),
            Action::Break => state.leader.write(Record::Break, &state.book),
            Action::Durable => self.durable(state),
            Action::OldDurable => {
                if let Some((old, _)) = &mut state.deposed {
                    old.advance(self, &mut state.book);
                }
            }
            Action::Depose(kept) => self.depose(state, kept),
            _ => {}
        }
        state.leader.work(self, &state.book);
    }

    fn client_actions(&self, state: &State, id: ClientId, actions: &mut Vec<Action>) {
        let (client, left) = (&state.clients[usize::from(id)], &state.left);
        let term = Some(state.leader.term);
        let mut may = |may: bool, action| actions.extend(may.then_some(action));
        let waits = client.phase == Phase::Waits;
        let stands = state.leader.has((id, client.asking));
        may(waits && client.at != term, Action::Ask(id));
        let is_earlier = |(old, _): &(Leader, Token)| client.at < Some(old.term);
        may(waits && state.deposed.as_ref().is_some_and(is_earlier), Action::AskOld(id));
        may(waits && client.at.is_some() && left.copies > 0, Action::Reconnect(id));
        may(waits && stands && left.drops > 0, Action::Drop(id));
        may(waits && left.leaves > 0, Action::GiveUp(id));
        may(client.copy.is_some_and(|(_, at)| at != term), Action::AskForLost(id));
        may(client.copy.is_some(), Action::LeaveForLost(id));
        let Some(token) = client.token() else { return };
        may(self.story.writes && !client.wrote, Action::Write(id));
        may(left.renewals > 0, Action::Renew(id));
        may(matches!(client.phase, Phase::Holds(_)), Action::SendRelease(id));
        if client.phase == Phase::Releases(token) {
            let is_open = state.book.released & bit(token) == 0;
            may(is_open && !state.leader.has_release(token), Action::Release(id));
            let tells = |(old, _): &(Leader, Token)| old.early(self, token, false).is_some();
            may(state.deposed.as_ref().is_some_and(tells), Action::ReleaseAtOld(id));
        }
    }

    fn shard_actions(&self, state: &State, actions: &mut Vec<Action>) {
        let leader = &state.leader;
        let mut may = |may: bool, action| actions.extend(may.then_some(action));
        let lock = leader.lock_in_log(self);
        // The lease of a client that does not know of its grant ends in any case, sooner or later.
        let abandons = |held: Held| {
            let client = &state.clients[usize::from(held.client)];
            let other = client.token().is_some_and(|token| token != held.token);
            let is_idle = client.phase == Phase::Gone || other;
            leader.tail.is_empty() && is_idle && self.wish != Some(Wish::NoIdleLease)
        };
        let ends = |held| state.left.ends > 0 || abandons(held);
        may(lock.holder.is_some_and(ends), Action::EndLease);
        may(lock.holder.is_some() && state.left.breaks > 0, Action::Break);
        may(!leader.tail.is_empty(), Action::Durable);
        let hears = |(old, shared): &(Leader, Token)| {
            !old.turns.is_empty() && old.durable < leader.durable.min(*shared)
        };
        may(state.deposed.as_ref().is_some_and(hears), Action::OldDurable);
        if state.left.changes > 0 {
            actions.extend((0..=leader.tail.len()).map(Action::Depose));
        }
    }
}

impl Model for Spec {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut clients = vec![Client::new(Phase::Waits); usize::from(self.story.clients)];
        let mut book = Book::default();
        let mut leader = Leader::default();
        if self.story.is_held {
            clients[0].phase = Phase::Holds(0);
            (book.told[0], book.largest) = (bit(0), Some(0));
            leader.begin_held();
        }
        vec![State { clients, leader, deposed: None, book, left: self.story }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        (0..self.story.clients).for_each(|client| self.client_actions(state, client, actions));
        let heard =
            |answer: &&Answer| self.hears(&state.clients[usize::from(answer.client)], answer);
        actions.extend(state.book.answers.iter().filter(heard).copied().map(Action::Take));
        self.shard_actions(state, actions);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        state.left.spend(action);
        self.client_step(&mut state, action);
        self.shard_step(&mut state, action);
        // Answers that no client accepts any more make no difference.
        let State { clients, book, .. } = &mut state;
        book.answers.retain(|answer| self.hears(&clients[usize::from(answer.client)], answer));
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ALONE, |_: &Self, state: &State| state.is_alone()),
            Property::always(TOKENS, |_: &Self, state: &State| state.tokens_grow()),
            Property::always(KEPT, |_: &Self, state: &State| {
                state.book.fault != Some(Fault::Refused)
            }),
            Property::always(GUARDED, |_: &Self, state: &State| {
                state.book.fault != Some(Fault::Overwritten)
            }),
            Property::always(TOLD, |spec: &Self, state: &State| {
                let mut actions = Vec::new();
                spec.actions(state, &mut actions);
                !actions.is_empty() || state.clients.iter().all(|client| state.is_done(client))
            }),
            Property::sometimes("all is done", |_: &Self, state: &State| {
                state
                    .clients
                    .iter()
                    .all(|client| client.phase != Phase::Gone && state.is_done(client))
            }),
        ]
    }
}
