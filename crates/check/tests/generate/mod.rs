//! Valid histories from a seed: transactions run one by one through the model, each at one moment
//! inside of the interval in which its client waited.

use check::model::{self, Model};
use check::{History, Op, Outcome, Txn, Word};

/// Random numbers (Steele, Lea and Flood, 2014): small, and the same everywhere.
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    pub fn percent(&mut self, chance: u64) -> bool {
        self.next() % 100 < chance
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

/// Commands of the transactions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Workload {
    Lists,
    Registers,
    Sets,
    /// All three of the above.
    Unique,
    /// Every modelled type, any values.
    Everything,
    /// Single increments and reads.
    Counters,
}

pub struct Options {
    pub workload: Workload,
    pub txns: usize,
    pub processes: usize,
    pub keys: usize,
    /// Failed and indefinite transactions, in percent each.
    pub trouble: u64,
    /// Whether indefinite transactions that took effect have a known timestamp.
    pub stamp_indefinite: bool,
    /// Whether some sessions dispatch without waiting.
    pub dispatch: bool,
}

struct Session {
    process: u64,
    dispatched: bool,
    issued: u64,
    /// The next invocation is later than this.
    free_us: u64,
}

/// A history that a strictly serializable store can produce.
pub fn history(random: &mut SplitMix64, options: &Options) -> History {
    let mut sessions: Vec<Session> = (0..options.processes as u64)
        .map(|process| Session {
            process,
            dispatched: options.dispatch && process % 2 == 1,
            issued: 0,
            free_us: 0,
        })
        .collect();
    let mut next_process = options.processes as u64;
    let mut model = Model::default();
    let mut unique = 0;
    let mut txns = Vec::new();
    let mut commit_us = 10;
    while txns.len() < options.txns {
        commit_us += 1 + random.below(10) as u64;
        let free: Vec<usize> =
            (0..sessions.len()).filter(|&i| sessions[i].free_us + 1 < commit_us).collect();
        if free.is_empty() {
            continue;
        }
        let session = &mut sessions[*random.pick(&free)];
        let span_us = (commit_us - session.free_us - 1).min(60);
        let invoke_us = commit_us - 1 - random.below(span_us as usize) as u64;
        let complete_us = commit_us + random.below(60) as u64;
        let ops = commands(random, options, &mut unique);
        let trouble = !session.dispatched && random.percent(options.trouble);
        let (outcome, applied) = match (trouble, random.below(3)) {
            (false, _) => (Outcome::Ok, true),
            (true, 0) => (Outcome::Fail, false),
            (true, 1) => (Outcome::Info, false),
            (true, _) => (Outcome::Info, true),
        };
        let run = |words: Vec<Word>| {
            let reply = if applied { Some(model.apply(&words)) } else { None };
            Op { words, reply: reply.filter(|_| outcome == Outcome::Ok) }
        };
        let ops = ops.into_iter().map(run).collect();
        let stamped = applied && (outcome == Outcome::Ok || options.stamp_indefinite);
        session.issued += 1;
        txns.push(Txn {
            id: 0,
            process: session.process,
            outcome,
            invoke_us,
            complete_us: (outcome != Outcome::Info).then_some(complete_us),
            ops,
            ts: stamped.then_some(commit_us),
            tie: None,
            shards: Vec::new(),
            session_seq: session.dispatched.then_some(session.issued),
        });
        session.free_us = if session.dispatched { invoke_us } else { complete_us };
        if outcome == Outcome::Info {
            (session.process, session.free_us) = (next_process, commit_us);
            next_process += 1;
        }
    }
    renumber(txns)
}

/// Transactions are numbered in order of invocation.
pub fn renumber(mut txns: Vec<Txn>) -> History {
    txns.sort_by_key(|txn| (txn.invoke_us, txn.process, txn.session_seq));
    for (id, txn) in txns.iter_mut().enumerate() {
        txn.id = id;
    }
    History { txns, bank: None }
}

fn commands(random: &mut SplitMix64, options: &Options, unique: &mut u64) -> Vec<Vec<Word>> {
    let number = match options.workload {
        Workload::Counters => 1,
        _ => 1 + random.below(3),
    };
    (0..number)
        .map(|_| {
            let text = command(random, options, unique);
            text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
        })
        .collect()
}

fn command(random: &mut SplitMix64, options: &Options, unique: &mut u64) -> String {
    let key = random.below(options.keys);
    *unique += 1;
    let value = *unique;
    let workload = match options.workload {
        Workload::Unique => *random.pick(&[Workload::Lists, Workload::Registers, Workload::Sets]),
        other => other,
    };
    let everything: Vec<&str> = EVERYTHING.split("; ").collect();
    let forms: &[&str] = match workload {
        Workload::Lists => &["rpush lK V", "lrange lK 0 -1"],
        Workload::Registers => {
            &["set rK V", "get rK", "set rK V", "get rK", "getset rK V", "mget rK rJ"]
        }
        Workload::Sets => &["sadd sK V", "smembers sK"],
        Workload::Counters => &["incr cK", "get cK", "incrby cK D", "set cK D"],
        _ => &everything,
    };
    let form = random.pick(forms);
    let small = random.below(5).to_string();
    let other = random.below(options.keys).to_string();
    form.replace('K', &key.to_string())
        .replace('V', &format!("v{value}"))
        .replace('D', &small)
        .replace('J', &other)
}

/// `K` and `J` stand for keys, `V` for a unique value, `D` for a small number.
const EVERYTHING: &str = "set rK V; get rK; getset rK V; setnx rK V; append rK V; strlen rK; del rK; \
    exists rK rJ; mset rK V rJ D; mget rK rJ; set nK D; incr nK; incrby nK D; get nK; \
    hset hK fD V; hget hK fD; hdel hK fD; hincrby hK nD D; hgetall hK; hlen hK; \
    hexists hK fD; sadd sK D; sadd sK V; srem sK D; sismember sK D; scard sK; smembers sK; \
    zadd zK D mD; zadd zK D mV; zrem zK mD; zscore zK mD; zcard zK; zincrby zK D mD; \
    zrange zK 0 -1 withscores; zrangebyscore zK 1 3; rpush lK V; lpush lK V; lpop lK; \
    rpop lK; llen lK; lrange lK 0 -1; lrange lK 0 D; counter.add cK D; counter.incr cK D; \
    counter.get cK; counter.try cK -D; topk.put tK iD D; topk.best tK D; topk.count tK; \
    bag.add bK D 0.D; bag.count bK; bag.sum bK; log.append gK V; log.tail gK D; \
    counter.atleast cK D; topk.best tK D withscores; bag.max bK; get hK; sadd lK V";

/// Number of values in the replies of the history's reads: a check that the generator works.
pub fn observed_values(history: &History) -> usize {
    let ops = history.txns.iter().flat_map(|txn| &txn.ops);
    let read = ops.filter(|op| model::is_read(&op.words));
    read.filter_map(|op| op.reply.as_ref()).map(|reply| reply.flat().len()).sum()
}
