//! Sessions with etcd: a connection, a lease and a stream of watches each, and the loop in which
//! one thread serves them all.

use crate::messages::{
    Call, LeaseGrantRequest, LeaseRevokeRequest, WatchCancel, WatchCreate, WatchRequest,
};
use crate::rpc::{Connection, Watched, Watcher};
use bench::coordination::recipes::locker::Told;
use bench::coordination::services::client::{Counts, Heard};
use bench::load::timers::Timers;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use tokio::net::unix::pipe::Receiver;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::LocalSet;

/// Duration of a lease: longer than any run, in which no client fails, so that it needs no
/// keep-alives.
const LEASE_S: i64 = 86_400;

/// Event from a task.
#[derive(Debug)]
pub enum Said {
    /// Event of nodes.
    Heard(Heard),
    /// Event of a lock.
    Told(Told),
}

/// Sender of events; an error ends the run.
pub type Say = UnboundedSender<Result<Said, String>>;

/// One session.
pub struct Session {
    connection: Connection,
    /// The lease that its keys end with.
    pub lease: i64,
    watcher: RefCell<Watcher>,
    /// Receivers of watches by their number.
    watches: RefCell<BTreeMap<i64, oneshot::Sender<()>>>,
    last_watch: Cell<i64>,
    counts: Cell<Counts>,
}

impl Session {
    async fn open(machine: SocketAddr, say: Say) -> Result<Rc<Self>, String> {
        let mut connection = Connection::open(machine).await?;
        let told = |error: tonic::Status| format!("{machine}: {error}");
        let granted = connection.call(LeaseGrantRequest { ttl_s: LEASE_S }).await.map_err(told)?;
        let (watcher, watched) = connection.watches().await.map_err(told)?;
        let session = Rc::new(Self {
            connection,
            lease: granted.lease,
            watcher: RefCell::new(watcher),
            watches: RefCell::default(),
            last_watch: Cell::new(0),
            counts: Cell::default(),
        });
        let own = Rc::clone(&session);
        tokio::task::spawn_local(async move {
            let Err(why) = own.hear(watched).await;
            // At the end of the run the receiver is gone.
            let _ = say.send(Err(why));
        });
        Ok(session)
    }

    /// Sends a request that may change data.
    ///
    /// # Errors
    /// An error of etcd or of the connection.
    pub async fn write<Q: Call>(&self, request: Q) -> Result<Q::Answer, String> {
        self.count(|counts| counts.writes += 1);
        self.call(request).await
    }

    /// Sends a request that changes nothing.
    ///
    /// # Errors
    /// An error of etcd or of the connection.
    pub async fn read<Q: Call>(&self, request: Q) -> Result<Q::Answer, String> {
        self.count(|counts| counts.reads += 1);
        self.call(request).await
    }

    async fn call<Q: Call>(&self, request: Q) -> Result<Q::Answer, String> {
        let answer = self.connection.clone().call(request).await;
        self.count(|counts| counts.heard += 1);
        answer.map_err(|status| format!("etcd answered: {status}"))
    }

    /// Watches a key from a revision on: the receiver is notified of the first change.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn watch(&self, key: &[u8], from: i64) -> Result<oneshot::Receiver<()>, String> {
        let watch = self.last_watch.get() + 1;
        self.last_watch.set(watch);
        let (sender, receiver) = oneshot::channel();
        self.watches.borrow_mut().insert(watch, sender);
        let create = WatchCreate { key: key.to_vec(), from, watch };
        self.count(|counts| counts.reads += 1);
        let request = WatchRequest { create: Some(create), cancel: None };
        self.watcher.borrow_mut().ask(&request).map_err(|status| status.to_string())?;
        Ok(receiver)
    }

    async fn hear(&self, mut watched: Watched) -> Result<std::convert::Infallible, String> {
        loop {
            let said = watched.next().await.map_err(|status| status.to_string())?;
            self.count(|counts| counts.heard += 1);
            let waiting = self.watches.borrow().contains_key(&said.watch);
            if waiting && (said.canceled || said.compacted > 0) {
                return Err("etcd has ended a watch".to_owned());
            }
            if said.events.is_empty() {
                continue;
            }
            // The watch was for the first change only.
            let Some(sender) = self.watches.borrow_mut().remove(&said.watch) else { continue };
            let _ = sender.send(());
            let cancel = Some(WatchCancel { watch: said.watch });
            self.count(|counts| counts.reads += 1);
            let request = WatchRequest { create: None, cancel };
            self.watcher.borrow_mut().ask(&request).map_err(|status| status.to_string())?;
        }
    }

    fn count(&self, more: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts.get();
        more(&mut counts);
        self.counts.set(counts);
    }
}

/// All sessions with the loop that serves them.
pub struct Sessions {
    timers: Timers,
    /// The kernel's timer, which becomes readable when it fires: the runtime's own timers are late
    /// by up to a millisecond.
    timer: Receiver,
    all: Vec<Rc<Session>>,
    say: Say,
    said: UnboundedReceiver<Result<Said, String>>,
    // Tasks, dropped before the runtime that runs them.
    tasks: LocalSet,
    runtime: Runtime,
}

impl Sessions {
    /// Begins a session at each of these members.
    ///
    /// # Errors
    /// A member cannot be reached.
    pub fn begin(machines: &[SocketAddr]) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (timers, tasks) = (Timers::new()?, LocalSet::new());
        let (say, said) = unbounded_channel();
        let timer = {
            let _inside = runtime.enter();
            Receiver::from_owned_fd_unchecked(timers.duplicate()?)?
        };
        let opened = tasks.block_on(&runtime, async {
            let mut all = Vec::new();
            for machine in machines {
                all.push(Session::open(*machine, say.clone()).await?);
            }
            Ok::<_, String>(all)
        });
        let all = opened.map_err(io::Error::other)?;
        Ok(Self { timers, timer, all, say, said, tasks, runtime })
    }

    /// Nanoseconds on the clock of all times.
    pub fn now_ns(&self) -> u64 {
        self.timers.now_ns()
    }

    /// Number of sessions.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Session with this number.
    pub fn session(&self, number: usize) -> Rc<Session> {
        Rc::clone(&self.all[number])
    }

    /// Schedules [`Heard::Due`] at a time.
    pub fn remind(&mut self, at_ns: u64, what: usize) {
        self.timers.add(at_ns, what);
    }

    /// Starts a task with the next wait, whose result is an event.
    pub fn spawn(&self, task: impl Future<Output = Result<Said, String>> + 'static) {
        let say = self.say.clone();
        self.tasks.spawn_local(async move {
            // At the end of the run the receiver is gone.
            let _ = say.send(task.await);
        });
    }

    /// Sender for tasks with several events.
    pub fn say(&self) -> Say {
        self.say.clone()
    }

    /// Runs until there is an event, or until a deadline.
    ///
    /// # Errors
    /// A task has failed.
    pub fn wait(&mut self, until_ns: u64, out: &mut Vec<Said>) -> io::Result<()> {
        while out.is_empty() {
            self.turn(until_ns, out)?;
            if self.now_ns() >= until_ns {
                break;
            }
        }
        Ok(())
    }

    fn turn(&mut self, until_ns: u64, out: &mut Vec<Said>) -> io::Result<()> {
        self.timers.arm(until_ns)?;
        let is_due = self.timers.pop(self.timers.now_ns());
        out.extend(is_due.map(|what| Said::Heard(Heard::Due(what))));
        let (timer, said, at_once) = (&self.timer, &mut self.said, is_due.is_some());
        let first = self.tasks.block_on(&self.runtime, async {
            // Requests are sent even if there is nothing to wait for.
            tokio::task::yield_now().await;
            if at_once {
                return Ok(None);
            }
            tokio::select! {
                first = said.recv() => Ok(first),
                fired = fired(timer) => fired.map(|()| None),
            }
        })?;
        let mut next = first;
        while let Some(one) = next {
            out.push(one.map_err(io::Error::other)?);
            next = self.said.try_recv().ok();
        }
        Ok(())
    }

    /// Numbers of messages and bytes sent and received so far.
    pub fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        for session in &self.all {
            let own = session.counts.get();
            sum.writes += own.writes;
            sum.reads += own.reads;
            sum.heard += own.heard;
            sum.bytes += session.connection.bytes();
        }
        sum
    }

    /// Ends all leases, and their keys with them.
    ///
    /// # Errors
    /// An error of etcd or of a connection.
    pub fn close(self) -> io::Result<()> {
        let all = self.all;
        let ended = self.tasks.block_on(&self.runtime, async move {
            for session in all {
                session.write(LeaseRevokeRequest { lease: session.lease }).await?;
            }
            Ok::<_, String>(())
        });
        ended.map_err(io::Error::other)
    }
}

/// Waits until a timer has fired.
async fn fired(timer: &Receiver) -> io::Result<()> {
    loop {
        timer.readable().await?;
        match timer.try_read(&mut [0; 8]) {
            // The timer was set again since.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            read => return read.map(|_| ()),
        }
    }
}
