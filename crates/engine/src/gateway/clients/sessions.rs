//! Sessions of all connections of a gateway, and the places of their replies: in the order of the commands,
//! whatever the order of the answers.

use super::session::{BlockedBy, Held, Session, Slot, SlotState};
use crate::gateway::acl::Users;
use crate::gateway::api::{Opening, Output, SessionId};
use crate::gateway::core::Core;
use crate::gateway::errors::says_lost_leader;
use crate::gateway::operators::slow::{Answered, Slow};
use crate::gateway::operators::words::NOT_KEPT;
use crate::gateway::slab::Slab;
use crate::gateway::target::{ATTEMPT, Target, WHOLE};
use crate::gateway::txn::work::Keep;
use crate::ids::RequestId;
use crate::limits::{PIPELINE_REQUESTS_MAX, TRANSACTION_BYTES_MAX};
use crate::now::Now;
use adt::{ArgBuf, Args, ErrorReply, Reply};

/// Consequence of a reply for other parts.
pub(in crate::gateway) enum Finished {
    /// No consequence.
    Done,
    /// The reply is that of an attempt of the blocking command with this job.
    Attempt(u64, Reply),
    /// The last reply of a request is known: a shard is to remember all of them.
    Kept(Box<Keep>, Vec<Reply>),
}

/// All sessions of a gateway.
#[derive(Default)]
pub(in crate::gateway) struct Sessions {
    table: Slab<Session>,
    /// Number of sessions that were ever opened.
    opened: u64,
    /// Sessions whose held commands may go on.
    resumable: Vec<SessionId>,
    /// Sessions that carry out queued commands behind a transaction, and may go on with the next.
    finishing: Vec<SessionId>,
    /// Target of the reply of such a command, while it begins.
    given: Option<Target>,
    /// Sessions with commands to be dispatched.
    dispatching: Vec<SessionId>,
    /// Sessions whose next scripts may go ahead.
    with_scripts: Vec<SessionId>,
    /// Sessions with caches whose transaction has ended.
    left: Vec<SessionId>,
}

impl Sessions {
    /// Opens a session.
    pub fn open(&mut self, core: &mut Core, opening: Opening, users: &Users) -> SessionId {
        // Numbers of clients differ between gateways.
        let client =
            self.opened * u64::from(core.config.gateways) + u64::from(core.config.id.worker) + 1;
        self.opened += 1;
        let mut session = Session::new(opening, client, users.first(&core.config));
        session.active_us = core.now.mono_us;
        session.about.opened_us = core.now.mono_us;
        core.mail.stats.sessions += 1;
        SessionId(self.table.insert(session))
    }

    /// Removes a session.
    pub fn close(&mut self, core: &mut Core, id: SessionId) {
        if self.table.remove(id.0).is_some() {
            core.mail.stats.sessions -= 1;
        }
    }

    /// Session with a handle.
    #[inline]
    pub fn get(&self, handle: u64) -> Option<&Session> {
        self.table.get(handle)
    }

    /// Session with a handle.
    #[inline]
    pub fn get_mut(&mut self, handle: u64) -> Option<&mut Session> {
        self.table.get_mut(handle)
    }

    /// All sessions with their handles, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut Session)> {
        self.table.iter_mut()
    }

    /// All sessions with their handles.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Session)> {
        self.table.iter()
    }

    /// Session of the client with a number.
    pub fn of_client(&self, client: u64) -> Option<(SessionId, &Session)> {
        let found = self.iter().find(|(_, session)| session.about.client == client);
        found.map(|(handle, session)| (SessionId(handle), session))
    }

    /// Number of requests of a session without an answer; a number above all limits if the commands that it
    /// has sent ahead take too much memory.
    pub fn in_progress(&self, id: SessionId) -> usize {
        self.table.get(id.0).map_or(0, |session| {
            let full = session.held_bytes > TRANSACTION_BYTES_MAX;
            let more = if full { PIPELINE_REQUESTS_MAX } else { 0 };
            session.queue.len() + session.held.len() + more
        })
    }

    /// Whether every command that the session has sent is answered.
    pub fn is_idle(&self, id: SessionId) -> bool {
        // A command that is carried out behind a transaction has its turn.
        self.given.is_some() || self.table.get(id.0).is_none_or(|session| session.queue.is_empty())
    }

    /// Whether the next command has a place behind a transaction.
    pub fn is_given(&self) -> bool {
        self.given.is_some()
    }

    /// Whether the next command of a session has a request number.
    pub fn is_numbered(&self, id: SessionId) -> bool {
        self.given.is_none() && self.table.get(id.0).is_some_and(|s| s.request.is_some())
    }

    /// Takes the request number that the client gave for its present command.
    pub fn take_request(&mut self, id: SessionId) -> Option<RequestId> {
        let session = self.table.get_mut(id.0)?;
        let request = session.request.take();
        if request.is_some() {
            session.refresh();
        }
        request
    }
}

/// Replies.
impl Sessions {
    /// Gives a command a reply that is known at once.
    pub fn reply(&mut self, core: &mut Core, id: SessionId, reply: Reply) {
        let Some(session) = self.table.get_mut(id.0) else { return };
        if reply.is_error() && session.request.take().is_some() {
            // The number was for the refused command, and not for the next one.
            session.refresh();
        }
        let slot = session.slot(SlotState::Done(reply));
        session.queue.push_back(slot);
        if session.queue.len() == 1 {
            flush(core, id, session);
        }
    }

    /// Target of a reply that will be known later: the given one, or a new place.
    pub fn place(&mut self, id: SessionId, given: Option<Target>) -> Target {
        given.or_else(|| self.given.take()).unwrap_or_else(|| {
            let seq = self.table.get_mut(id.0).map_or(0, Session::push);
            Target { session: id, seq, item: WHOLE }
        })
    }

    /// Sets the target of the reply of the next command, which is carried out behind a transaction; none
    /// ends that.
    pub fn give(&mut self, target: Option<Target>) {
        self.given = target;
    }

    /// Holds the commands behind this one until its reply is known.
    pub fn bar(&mut self, target: Target) {
        if let Some(session) = self.table.get_mut(target.session.0) {
            session.barrier = Some(target.seq);
        }
    }

    /// Puts a reply into its place. Sends it when the replies before it are known.
    pub fn finish(&mut self, core: &mut Core, target: Target, reply: Reply) -> Finished {
        let Some(session) = self.table.get_mut(target.session.0) else { return Finished::Done };
        if target.item == ATTEMPT {
            return match session.blocked {
                Some(BlockedBy::Command(job)) => Finished::Attempt(job, reply),
                _ => Finished::Done,
            };
        }
        let index = target.seq.wrapping_sub(session.base) as usize;
        let Some(slot) = session.queue.get_mut(index) else { return Finished::Done };
        let mut finished = Finished::Done;
        match &mut slot.state {
            SlotState::Partial(items, missing, keep) if target.item != WHOLE => {
                // An item that is known keeps its reply, and counts once.
                match items.get_mut(target.item as usize) {
                    Some(item @ None) => *item = Some(reply),
                    _ => return Finished::Done,
                }
                *missing -= 1;
                if *missing > 0 {
                    self.finishing.push(target.session);
                    return Finished::Done;
                }
                let items = std::mem::take(items).into_iter().flatten();
                if let Some(keep) = keep.take() {
                    let items: Vec<Reply> = items.collect();
                    slot.state = SlotState::Done(keep.form.reply(items.iter().cloned()));
                    finished = Finished::Kept(keep, items);
                } else {
                    slot.state = SlotState::Done(Reply::Array(items.collect()));
                }
            }
            _ => slot.state = SlotState::Done(reply),
        }
        if session.about.scripts.finished(target.seq) {
            self.with_scripts.push(target.session);
        }
        let passed = session.barrier == Some(target.seq);
        if passed {
            session.barrier = None;
        }
        let gathered = passed && session.pipeline.has_gathered();
        if index == 0 {
            flush(core, target.session, session);
        }
        if !session.held.is_empty() && session.barrier.is_none() && session.queue.is_empty() {
            self.resumable.push(target.session);
        }
        if gathered {
            self.dispatch_soon(target.session);
        }
        finished
    }

    /// Makes a reply an array with items that are known later, when a shard is to remember them.
    pub fn finish_partly(
        &mut self,
        target: Target,
        items: Vec<Option<Reply>>,
        keep: Option<Box<Keep>>,
    ) {
        let missing = items.iter().filter(|item| item.is_none()).count();
        let Some(session) = self.table.get_mut(target.session.0) else { return };
        let index = target.seq.wrapping_sub(session.base) as usize;
        if let Some(slot) = session.queue.get_mut(index) {
            slot.state = SlotState::Partial(items, missing, keep);
        }
        self.finishing.push(target.session);
    }

    /// Gives the client an error behind its other replies, and closes the connection after it.
    pub fn end(&mut self, core: &mut Core, id: SessionId, error: ErrorReply) {
        let Some(session) = self.table.get_mut(id.0) else { return };
        session.queue.push_back(Slot {
            state: SlotState::Waiting,
            command: None,
            begun_us: 0,
            words: NOT_KEPT,
            silent: false,
            last: false,
        });
        let seq = session.base + session.queue.len() as u64 - 1;
        session.close_after_replies(core, id);
        core.finish(Target { session: id, seq, item: WHOLE }, error.into());
    }

    /// Closes a connection once its newest reply is sent.
    pub fn close_after_replies(&mut self, core: &mut Core, id: SessionId) {
        if let Some(session) = self.table.get_mut(id.0) {
            session.close_after_replies(core, id);
        }
    }
}

/// Sessions that go on.
impl Sessions {
    /// Holds a command until its turn comes.
    pub fn hold(&mut self, id: SessionId, args: &Args<'_>) {
        let Some(session) = self.table.get_mut(id.0) else { return };
        if session.held.len() >= 2 * PIPELINE_REQUESTS_MAX {
            let text = "too many commands were sent before the replies to earlier ones";
            session.held.push_back(Held::Fault(ErrorReply::err(text)));
            session.closing = true;
            return;
        }
        let words = ArgBuf::of(args.iter_from(0));
        let bytes = args.iter_from(0).map(<[u8]>::len).sum::<usize>() + args.len() * 8;
        session.held_bytes += bytes;
        session.held.push_back(Held::Command(words, bytes));
    }

    /// Takes the first held command of a session, unless a reply bars it.
    pub fn next_held(&mut self, id: SessionId) -> Option<Held> {
        let session = self.table.get_mut(id.0)?;
        if session.bars_next_held() {
            return None;
        }
        let held = session.held.pop_front()?;
        if let Held::Command(_, bytes) = &held {
            session.held_bytes -= bytes;
        }
        Some(held)
    }

    /// Holds a command again, in front of the others.
    pub fn hold_again(&mut self, id: SessionId, words: ArgBuf, bytes: usize) {
        if let Some(session) = self.table.get_mut(id.0) {
            session.held_bytes += bytes;
            session.held.push_front(Held::Command(words, bytes));
        }
    }

    /// Lets all sessions go on with their held commands.
    pub fn resume_all(&mut self) {
        let held = self.table.iter().filter(|(_, session)| !session.held.is_empty());
        self.resumable.extend(held.map(|(handle, _)| SessionId(handle)));
    }

    /// Lets a session go on with its held commands.
    pub fn resume(&mut self, id: SessionId) {
        self.resumable.push(id);
    }

    /// Takes a session that may go on with its held commands.
    pub fn next_resumable(&mut self) -> Option<SessionId> {
        self.resumable.pop()
    }

    /// Takes a session that may go on with the commands behind its transaction.
    pub fn next_finishing(&mut self) -> Option<SessionId> {
        self.finishing.pop()
    }

    /// Whether a session may go on with the commands behind its transaction.
    pub fn are_finishing(&self) -> bool {
        !self.finishing.is_empty()
    }

    /// Dispatches the commands that a session has gathered when the present input is processed.
    #[inline]
    pub fn dispatch_soon(&mut self, id: SessionId) {
        if self.table.get_mut(id.0).is_some_and(|session| session.pipeline.queue()) {
            self.dispatching.push(id);
        }
    }

    /// Notes that the transaction of a session has ended, if the session keeps what it reads.
    pub fn has_left(&mut self, id: SessionId) {
        if self.table.get(id.0).is_some_and(|session| session.about.tracker.is_some()) {
            self.left.push(id);
        }
    }

    /// Takes a session with a cache whose transaction has ended.
    pub fn next_left(&mut self) -> Option<SessionId> {
        self.left.pop()
    }

    /// Whether there is such a session.
    pub fn have_left(&self) -> bool {
        !self.left.is_empty()
    }

    /// Runs the next scripts of a session when the present input is processed.
    pub fn run_scripts_soon(&mut self, id: SessionId) {
        self.with_scripts.push(id);
    }

    /// Takes a session whose next scripts may go ahead.
    pub fn next_with_scripts(&mut self) -> Option<SessionId> {
        self.with_scripts.pop()
    }

    /// Takes a session whose commands are to be dispatched.
    pub fn next_dispatching(&mut self) -> Option<SessionId> {
        self.dispatching.pop()
    }

    /// Whether sessions have commands to be dispatched, or scripts to be run.
    pub fn are_dispatching(&self) -> bool {
        !self.dispatching.is_empty() || !self.with_scripts.is_empty()
    }
}

impl Session {
    /// Lets the connection be closed once the newest reply is sent.
    pub fn close_after_replies(&mut self, core: &mut Core, id: SessionId) {
        self.closing = true;
        self.held.clear();
        self.about.scripts.clear();
        match self.queue.back_mut() {
            Some(slot) => slot.last = true,
            None => core.mail.outputs.push_back(Output::Close { session: id }),
        }
    }
}

/// Sends the replies that no other reply precedes.
fn flush(core: &mut Core, id: SessionId, session: &mut Session) {
    send_known(core, id, session);
    if !session.plain
        && let Some(tracker) = &session.about.tracker
        && tracker.is_due(session.base)
    {
        core.cached.push(id);
    }
}

fn send_known(core: &mut Core, id: SessionId, session: &mut Session) {
    while let Some(slot) = session.queue.front() {
        if !matches!(slot.state, SlotState::Done(_)) {
            return;
        }
        let Some(Slot { state: SlotState::Done(reply), command, begun_us, words, silent, last }) =
            session.queue.pop_front()
        else {
            return;
        };
        let closes = match &reply {
            Reply::Error(error) if !silent && core.config.close_on_lost_leader => {
                says_lost_leader(error)
            }
            _ => false,
        };
        let mail = &mut core.mail;
        session.base += 1;
        session.pipeline.told(session.base);
        let failed = reply.is_error();
        mail.stats.errors += u64::from(failed);
        if let Some(position) = command {
            let count = mail.stats.of_command(usize::from(position));
            let us = core.now.mono_us.saturating_sub(begun_us);
            count.us += us;
            count.failed += u64::from(failed);
            core.slow.durations.count(usize::from(position), us);
            if core.slow.is_slow(us) {
                note_slow(&mut core.slow, core.now, session, (position.into(), us, words));
            }
        }
        match session.queue.front() {
            None => session.kept.clear(),
            Some(next) => session.kept.forget_before(next.words),
        }
        if closes {
            mail.stats.closed_on_lost_leader += 1;
            mail.outputs.push_back(Output::Close { session: id });
            session.closing = true;
            session.held.clear();
            session.about.scripts.clear();
            // Replies to later commands are not sent.
            session.queue.iter_mut().for_each(|slot| (slot.silent, slot.last) = (true, false));
        } else if !silent {
            let protocol = session.protocol;
            let noted = match &reply {
                Reply::Ok => true,
                Reply::Status(text) => text == "QUEUED",
                _ => false,
            };
            let lingers = session.is_inside_bundle() || noted && session.is_in_transaction();
            mail.outputs.push_back(Output::Reply { session: id, reply, protocol, lingers });
        }
        if last && !closes {
            mail.outputs.push_back(Output::Close { session: id });
        }
    }
}

/// Notes a slow command of a session, by its position in the table, duration and place of its words.
#[cold]
fn note_slow(
    slow: &mut Slow,
    now: Now,
    session: &Session,
    (position, us, words): (usize, u64, u64),
) {
    let words = session.kept.get(words);
    let (address, name) = (&session.about.opening.peer, &session.about.name);
    slow.note(now, Answered { position, us, words, address, name });
}
