//! Thread for the server as a whole: memory, administration, stopping.

use crate::host::clock::Clock;
use crate::host::memory;
use crate::host::memory::LogMemory;
use crate::mail::{Mail, Mailbox, Report};
use crate::net::listen::{Connections, Listener};
use crate::net::password;
use crate::net::tls::peers::PeerTls;
use crate::net::tls::{Tls, TlsError};
use crate::operators::console::View;
use crate::operators::counts::LogCounts;
use crate::operators::{settings, words};
use crate::synchrony::picture::Picture;
use crate::synchrony::{Mode, Synchrony};
use crate::worker::Traffic;
use adt::Reply;
use engine::gateway::{Admin, CoordinationClient, Facts, SessionId};
use engine::ids::{GatewayId, MachineId, ShardId};
use engine::limits::SHARDS_MAX;
use engine::node::Readiness;
use probe::watch::{AppendRow, Figures, Wish};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use wire::jute::FourLetterWord;

/// Interval between checks of memory.
const WATCH_INTERVAL: Duration = Duration::from_millis(100);
/// Interval at which the workers receive the facts about the server.
const FACTS_INTERVAL: Duration = Duration::from_secs(1);
/// Time-out for a worker's report.
const REPORT_WAIT: Duration = Duration::from_secs(1);
/// Time for which a stop waits for the workers to finish the requests that they have read.
const DRAIN_WAIT: Duration = Duration::from_secs(5);

/// Message to the thread.
pub enum Notice {
    /// Administrative command of a client.
    Admin {
        /// Client's gateway.
        gateway: GatewayId,
        /// Client's session.
        session: SessionId,
        /// Requested action.
        action: Admin,
    },
    /// A shard's snapshot is durable, or has failed.
    Snapshot {
        /// Shard.
        shard: ShardId,
        /// Whether it is durable.
        ok: bool,
        /// Whether it was begun because of [`Mail::Snapshot`].
        asked: bool,
    },
    /// A worker has finished what it had read.
    Drained,
    /// Stop the server.
    Stop,
    /// Read certificates again.
    Reload,
    /// Request for the server's status.
    Status(Sender<Status>),
    /// Request for the console's view.
    Console(Sender<View>),
    /// Another machine is connected.
    Connected(MachineId),
    /// Another machine has answered a question about time.
    Answered {
        /// Machine.
        machine: MachineId,
        /// Number of the question.
        number: u32,
        /// Time from sending the question to reading the answer.
        rtt_us: u32,
        /// Time that the question spent at the other machine.
        service_us: u32,
    },
    /// Another machine's measurements of all other machines.
    Figures(MachineId, Box<Figures>),
    /// Election time-out that another machine uses, and the one that would suffice for it.
    Wish(MachineId, Wish),
    /// An append of this machine was durable on another one after so many microseconds.
    Appended(MachineId, u32),
    /// Durations of another machine's appends on all other machines.
    Appends(MachineId, Vec<AppendRow>),
    /// Another machine asks this one to hand the leadership of a shard to a machine.
    LeadElsewhere {
        /// Machine that asks.
        from: MachineId,
        /// Shard.
        shard: ShardId,
        /// New leader.
        to: MachineId,
    },
    /// Four-letter command of a client of the coordination service.
    Word {
        /// Worker that owns the connection.
        worker: u16,
        /// Connection.
        client: CoordinationClient,
        /// Command.
        word: FourLetterWord,
    },
}

/// Status of the server.
pub struct Status {
    /// Facts about the server.
    pub facts: Facts,
    /// Reports of the workers; fewer than workers if some do not answer.
    pub reports: Vec<Report>,
    /// Number of workers.
    pub workers: usize,
    /// Counters of the log, if there is one.
    pub log: Option<Arc<LogCounts>>,
    /// Measurements of the probe, in a cluster.
    pub synchrony: Option<Picture>,
}

impl Status {
    /// Whether all workers answer.
    pub fn is_healthy(&self) -> bool {
        self.reports.len() == self.workers
    }

    /// Reasons why the machine is not ready, over all workers.
    pub fn readiness(&self) -> Readiness {
        let mut sum = Readiness::default();
        self.reports.iter().for_each(|report| sum.add(&report.readiness));
        sum
    }
}

/// Sessions that wait for a snapshot of all shards.
struct Saving {
    missing: BTreeSet<ShardId>,
    ok: bool,
    /// Sessions to notify.
    waiting: Vec<(GatewayId, SessionId)>,
}

/// Resources of the thread.
pub struct Control {
    /// Inbox of the thread.
    pub receiver: Receiver<Notice>,
    /// Senders to the workers.
    pub workers: Vec<Mailbox>,
    /// Counters of the workers.
    pub traffic: Vec<Arc<Traffic>>,
    /// Counters of the log's thread, if there is a log.
    pub log: Option<Arc<LogCounts>>,
    /// Counters of the acceptor.
    pub connections: Arc<Connections>,
    /// Certificates for clients.
    pub tls: Option<Arc<Tls>>,
    /// Certificates for the other machines.
    pub peer_tls: Option<Arc<PeerTls>>,
    /// Facts about the server, fixed and changing ones.
    pub facts: Facts,
    /// Start time of the server.
    pub started: Instant,
    /// Clock.
    pub clock: Clock,
    /// Memory that all logs use.
    pub log_memory: Arc<LogMemory>,
    /// Returns the number of allocated bytes, if the program can tell better than the system.
    pub allocated_bytes: Option<fn() -> Option<u64>>,
    /// Whether to write a snapshot when the server stops.
    pub save_at_stop: bool,
    /// Thread that accepts connections.
    pub listener: Option<Listener>,
    /// Whether every client that reaches the server may read its keys.
    pub shows_keys: bool,
    /// Probe, in a cluster.
    pub synchrony: Option<Synchrony>,
    /// Data for answers to four-letter commands, if there is a port for them.
    pub zookeeper: Option<words::Place>,
}

/// Main loop of the thread. It runs until the server stops; before it returns, all requests that
/// were read are completed and the requested snapshots are written.
pub struct Runner {
    control: Control,
    saving: Option<Saving>,
    facts_sent: Instant,
}

impl Runner {
    /// Creates a runner that is ready to run.
    pub fn new(control: Control) -> Self {
        let facts_sent = control.started;
        Self { control, saving: None, facts_sent }
    }

    /// Runs until the server stops.
    pub fn run(mut self) {
        self.watch(true);
        let mut due = Instant::now() + WATCH_INTERVAL;
        loop {
            let rest = due.saturating_duration_since(Instant::now());
            let question = self.control.synchrony.as_ref().and_then(Synchrony::due);
            match self.control.receiver.recv_timeout(question.map_or(rest, |wait| wait.min(rest))) {
                Ok(Notice::Stop) | Err(RecvTimeoutError::Disconnected) => {
                    let save = self.control.save_at_stop;
                    return self.stop(save);
                }
                Ok(Notice::Admin { action: Admin::Shutdown { save }, .. }) => {
                    tracing::info!("a client has asked the server to shut down");
                    let save = save || self.control.save_at_stop;
                    return self.stop(save);
                }
                Ok(notice) => self.take(notice),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let now = Instant::now();
            let mut late = None;
            if now >= due {
                self.watch(false);
                // Lateness can be measured only after a sleep.
                late = (rest > Duration::ZERO).then(|| now - due);
                due = (due + WATCH_INTERVAL).max(now);
            }
            self.control.synchrony.iter_mut().for_each(|probe| probe.tick(late));
        }
    }

    fn take(&mut self, notice: Notice) {
        match notice {
            Notice::Admin { gateway, session, action } => self.admin(gateway, session, action),
            Notice::Snapshot { shard, ok, asked } => self.saved(shard, ok, asked),
            Notice::Reload => self.reload(),
            Notice::Status(reply) => {
                let status = self.status();
                // The receiver may have given up waiting.
                let _ = reply.send(status);
            }
            Notice::Console(reply) => {
                let view = self.view();
                let _ = reply.send(view);
            }
            Notice::Connected(machine) => {
                self.control.synchrony.iter_mut().for_each(|probe| probe.connected(machine));
            }
            Notice::Answered { machine, number, rtt_us, service_us } => {
                let times_us = (rtt_us, service_us);
                let probe = self.control.synchrony.iter_mut();
                probe.for_each(|probe| probe.answered(machine, number, times_us));
            }
            Notice::Figures(machine, figures) => {
                if let Some(probe) = &mut self.control.synchrony {
                    probe.hear(machine, *figures);
                }
            }
            Notice::Wish(machine, wish) => {
                self.control.synchrony.iter_mut().for_each(|probe| probe.wished(machine, wish));
            }
            Notice::Appended(machine, us) => {
                self.control.synchrony.iter_mut().for_each(|probe| probe.appended(machine, us));
            }
            Notice::Appends(machine, rows) => {
                if let Some(probe) = &mut self.control.synchrony {
                    probe.hear_appends(machine, rows);
                }
            }
            Notice::LeadElsewhere { from, shard, to } => {
                self.control.synchrony.iter_mut().for_each(|probe| probe.asked(from, shard, to));
            }
            Notice::Word { worker, client, word } => {
                let text = self.answer_word(word);
                self.control.workers[usize::from(worker)].send(Mail::Word(client, text));
            }
            Notice::Drained | Notice::Stop => {}
        }
    }

    fn answer(&self, gateway: GatewayId, session: SessionId, reply: Reply) {
        self.control.workers[usize::from(gateway.worker)].send(Mail::AdminDone(session, reply));
    }

    fn admin(&mut self, gateway: GatewayId, session: SessionId, action: Admin) {
        match action {
            Admin::Shutdown { .. } => {}
            Admin::Save => self.save(Some((gateway, session))),
            Admin::BackgroundSave => {
                self.save(None);
                self.answer(gateway, session, Reply::status("Background saving started"));
            }
            Admin::ConfigSet(settings) => {
                let reply = match self.configure(&settings) {
                    Ok(()) => Reply::Ok,
                    Err(reason) => Reply::err(reason),
                };
                self.answer(gateway, session, reply);
            }
            Admin::StandBack(on) => {
                tracing::info!(
                    "{}",
                    if on {
                        "hands over all leaderships and stands back"
                    } else {
                        "may lead again"
                    }
                );
                for worker in &self.control.workers {
                    worker.send(Mail::StandBack(on));
                }
                self.answer(gateway, session, Reply::Ok);
            }
            Admin::Password { bits } => {
                let password = password::random_digits(usize::from(bits));
                self.answer(gateway, session, Reply::bulk(password));
            }
            Admin::ResetStats => {
                for worker in &self.control.workers {
                    worker.send(Mail::ResetStats);
                }
                self.answer(gateway, session, Reply::Ok);
            }
        }
    }

    /// Changes settings that can change at run time: all of them or none.
    fn configure(&mut self, changes: &[(String, String)]) -> Result<(), String> {
        let (mut limit, mut mode) = (None, None);
        let mut shown = Vec::new();
        for (name, value) in changes {
            match name.to_ascii_lowercase().as_str() {
                "maxmemory" => {
                    let no_size = |_: String| failed(name, "argument must be a memory value");
                    let bytes: crate::config::Bytes = value.parse().map_err(no_size)?;
                    limit = Some(bytes.0);
                    shown.push(("maxmemory".to_owned(), bytes.0.to_string()));
                }
                "synchrony" => {
                    let new: Mode = value.parse().map_err(|error: String| failed(name, &error))?;
                    mode = Some(new);
                    shown.push(("synchrony".to_owned(), new.to_string()));
                }
                other => {
                    let new =
                        settings::check(other, value).map_err(|why: String| failed(name, &why))?;
                    shown.push((other.to_owned(), new));
                }
            }
        }
        if let Some(mode) = mode {
            tracing::info!("synchrony is {mode} now");
            self.control.synchrony.iter_mut().for_each(|probe| probe.set_mode(mode));
        }
        if !shown.is_empty() {
            let old = self.control.facts.memory_limit_bytes;
            self.control.facts.memory_limit_bytes = limit.unwrap_or(old);
            let shown = Arc::new(shown);
            for worker in &self.control.workers {
                worker.send(Mail::Configure(shown.clone()));
            }
            self.watch(true);
        }
        Ok(())
    }

    /// Begins a snapshot of all shards, or waits for the one in progress.
    fn save(&mut self, waiting: Option<(GatewayId, SessionId)>) {
        if let Some(saving) = &mut self.saving {
            saving.waiting.extend(waiting);
            return;
        }
        let missing = (0..SHARDS_MAX as u16).map(ShardId).collect();
        self.saving = Some(Saving { missing, ok: true, waiting: waiting.into_iter().collect() });
        for worker in &self.control.workers {
            worker.send(Mail::Snapshot);
        }
        self.watch(true);
    }

    fn saved(&mut self, shard: ShardId, ok: bool, asked: bool) {
        self.control.facts.save_failed = !ok;
        if ok {
            self.control.facts.last_save_s = self.control.clock.now().wall_us / 1_000_000;
        }
        let Some(saving) = self.saving.as_mut().filter(|_| asked) else { return self.watch(ok) };
        saving.missing.remove(&shard);
        saving.ok &= ok;
        if !saving.missing.is_empty() {
            return;
        }
        let saving = self.saving.take();
        // A client that receives the answer may ask for the time of the snapshot at once.
        self.watch(true);
        if let Some(saving) = saving {
            for (gateway, session) in saving.waiting {
                let failed =
                    || Reply::err("the snapshot failed; see the server's log for the reason");
                self.answer(gateway, session, if saving.ok { Reply::Ok } else { failed() });
            }
        }
    }

    fn reload(&self) {
        let (tls, peer_tls) = (&self.control.tls, &self.control.peer_tls);
        if tls.is_none() && peer_tls.is_none() {
            tracing::info!("there are no certificates to reload");
        }
        let log = |whose: &str, reloaded: Result<(), TlsError>| match reloaded {
            Ok(()) => {
                tracing::info!("certificates for {whose} were reloaded; new connections use them")
            }
            Err(error) => tracing::error!("{error}; the old certificates for {whose} stay in use"),
        };
        if let Some(tls) = tls {
            log("clients", tls.reload());
        }
        if let Some(tls) = peer_tls {
            log("the machines of the cluster", tls.reload());
        }
    }

    /// Checks memory, and sends the facts about the server to the workers when they are due or if
    /// `now`.
    fn watch(&mut self, now: bool) {
        let control = &mut self.control;
        let facts = &mut control.facts;
        let allocated = control.allocated_bytes.and_then(|allocated| allocated());
        facts.memory_bytes = allocated.unwrap_or_else(memory::resident_bytes);
        facts.memory_peak_bytes = facts.memory_peak_bytes.max(facts.memory_bytes);
        facts.memory_log_bytes = control.log_memory.taken();
        let buffered = control.traffic.iter().map(|one| one.buffered.load(Ordering::Relaxed));
        facts.memory_buffer_bytes = buffered.sum();
        let limit = facts.memory_limit_bytes;
        let near = limit > 0 && facts.memory_bytes > limit / 10 * 9;
        control.log_memory.set_short(near);
        let changed = judge_memory(facts, &control.log_memory);
        if now || changed || self.facts_sent.elapsed() >= FACTS_INTERVAL {
            self.refresh();
            self.facts_sent = Instant::now();
            let facts = Arc::new(self.control.facts.clone());
            for worker in &self.control.workers {
                worker.send(Mail::Facts(facts.clone()));
            }
        }
    }

    fn refresh(&mut self) {
        let control = &mut self.control;
        let facts = &mut control.facts;
        facts.uptime_s = control.started.elapsed().as_secs();
        facts.connections = control.connections.open.load(Ordering::Relaxed);
        facts.connections_total = control.connections.total.load(Ordering::Relaxed);
        facts.connections_refused = control.connections.refused.load(Ordering::Relaxed);
        (facts.cpu_user_us, facts.cpu_system_us) = memory::cpu_us();
        facts.saving = self.saving.is_some();
        let counters = control.log.iter().flat_map(|log| log.numbers());
        let line = |(name, _, value): (&str, _, u64)| {
            ("persistence", name.trim_end_matches("_total").to_owned(), value.to_string())
        };
        facts.more = counters.map(line).collect();
        let sum = |of: fn(&Traffic) -> u64| control.traffic.iter().map(|t| of(t)).sum();
        facts.bytes_in = sum(|traffic| traffic.bytes_in.load(Ordering::Relaxed));
        facts.bytes_out = sum(|traffic| traffic.bytes_out.load(Ordering::Relaxed));
    }

    fn status(&mut self) -> Status {
        self.refresh();
        let reports = self.gather(Mail::Report);
        let Control { facts, workers, log, synchrony, .. } = &mut self.control;
        let synchrony = synchrony.as_mut().map(Synchrony::picture);
        let (facts, log) = (facts.clone(), log.clone());
        Status { facts, reports, workers: workers.len(), log, synchrony }
    }

    fn view(&mut self) -> View {
        let status = self.status();
        let (sender, receiver) = channel();
        self.control.workers[0].send(Mail::Overview(sender));
        // A worker that has not answered just before will not answer now.
        let wait = if status.is_healthy() { REPORT_WAIT } else { Duration::ZERO };
        let overview = receiver.recv_timeout(wait).ok();
        View { status, overview, shows_keys: self.control.shows_keys }
    }

    /// Asks all workers; returns the answers that arrive in time.
    fn gather<T>(&self, ask: impl Fn(Sender<T>) -> Mail) -> Vec<T> {
        let (sender, receiver) = channel();
        for worker in &self.control.workers {
            worker.send(ask(sender.clone()));
        }
        drop(sender);
        let deadline = Instant::now() + REPORT_WAIT;
        let mut answers = Vec::new();
        while answers.len() < self.control.workers.len() {
            match receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(answer) => answers.push(answer),
                Err(_) => break,
            }
        }
        answers
    }

    fn answer_word(&self, word: FourLetterWord) -> String {
        let workers = self.gather(|reply| Mail::Details(words::needs_lists(word), reply));
        if matches!(word, FourLetterWord::Crst | FourLetterWord::Srst) {
            let all = word == FourLetterWord::Srst;
            for worker in &self.control.workers {
                worker.send(Mail::ResetTalk { all });
            }
        }
        let Some(place) = &self.control.zookeeper else { return String::new() };
        let uptime_s = self.control.started.elapsed().as_secs();
        words::answer(word, &words::Sources { place, uptime_s, workers: &workers })
    }

    /// Lets the workers finish the requests that they have read, writes snapshots if `save`, and
    /// stops the workers.
    fn stop(mut self, save: bool) {
        if let Some(listener) = self.control.listener.take() {
            listener.stop();
        }
        for worker in &self.control.workers {
            worker.send(Mail::Drain);
        }
        let deadline = Instant::now() + DRAIN_WAIT;
        let mut drained = 0;
        while drained < self.control.workers.len() {
            match self.wait(deadline) {
                Some(Notice::Drained) => drained += 1,
                Some(notice) => self.take_while_stopping(notice),
                None => {
                    tracing::warn!("stopped before all requests in progress were completed");
                    break;
                }
            }
        }
        if save {
            tracing::info!("writing a snapshot");
            // A snapshot that was begun before the last request does not contain it.
            self.finish_saving();
            self.save(None);
            self.finish_saving();
        }
        for worker in &self.control.workers {
            worker.send(Mail::Stop);
        }
    }

    fn finish_saving(&mut self) {
        while self.saving.is_some() {
            match self.control.receiver.recv() {
                Ok(notice) => self.take_while_stopping(notice),
                Err(_) => return,
            }
        }
    }

    fn take_while_stopping(&mut self, notice: Notice) {
        match notice {
            Notice::Admin { gateway, session, .. } => {
                self.answer(gateway, session, Reply::err("the server is stopping"));
            }
            other => self.take(other),
        }
    }

    fn wait(&self, deadline: Instant) -> Option<Notice> {
        let wait = deadline.saturating_duration_since(Instant::now());
        self.control.receiver.recv_timeout(wait).ok()
    }
}

/// Checks whether data or logs exceed their limits. Returns whether that has changed.
fn judge_memory(facts: &mut Facts, logs: &LogMemory) -> bool {
    let (data, limit) = (facts.memory_data_bytes(), facts.memory_limit_bytes);
    let over = limit > 0 && data > limit;
    let changed = over != facts.over_memory_limit;
    if changed {
        facts.over_memory_limit = over;
        let (data, limit) = (data >> 20, limit >> 20);
        if over {
            tracing::warn!("the data take {data} MiB of {limit} MiB: writes that grow are refused");
        } else {
            tracing::info!("the data take {data} MiB of {limit} MiB: writes are accepted again");
        }
    }
    let beyond = logs.is_beyond();
    if beyond == facts.over_log_limit {
        return changed;
    }
    facts.over_log_limit = beyond;
    let (logs, most) = (facts.memory_log_bytes >> 20, facts.memory_log_limit_bytes >> 20);
    if beyond {
        tracing::error!(
            "the logs take {logs} MiB of memory, {most} MiB are allowed, and no snapshot shortens \
             them: writes are refused"
        );
    } else {
        tracing::info!("the logs take {logs} MiB of {most} MiB: writes are accepted again");
    }
    true
}

/// Error for a setting that was not changed, in Redis' wording.
fn failed(name: &str, why: &str) -> String {
    format!("CONFIG SET failed (possibly related to argument '{name}') - {why}")
}
