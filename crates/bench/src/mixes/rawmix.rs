//! The raw mix: short transactions of adds and sizes over sets whose popularity follows a power
//! law. It is the micro benchmark of the study on transactions over abstract data types.

use crate::args::{Elements, Peer, RawmixArgs};
use crate::cell::Contestant;
use crate::conditions;
use crate::conditions::condition;
use crate::load::random::{Rng, Zipf};
use crate::load::resp;
use crate::load::runner::{Api, Retry};
use crate::load::workload::{Ops, Shape, Workload};
use crate::report::{Report, fields, ratio};
use crate::servers::control::Control;
use crate::servers::process::Server;
use crate::sweep::{Outcome, sweep};
use serde_json::{Map, Value};
use std::io;
use std::path::Path;
use wire::resp::ClientReply;

/// Initial members of all sets together, if each then has at least [`PRELOAD_MIN`].
const PRELOADED: u32 = 100_000;
/// Minimum number of initial members of each set.
const PRELOAD_MIN: u32 = 10;
const POOL_SMALL: u32 = 100;

/// The sets and the operations on them.
#[derive(Clone, Debug)]
pub struct RawMix {
    popularity: Zipf,
    keys: u32,
    updates: f64,
    txn_len: usize,
    preload: u32,
    /// Number of different elements; `None` if every element is new.
    pool: Option<u32>,
    added: u64,
}

/// An operation with all choices made.
#[derive(Clone, Copy, Debug)]
struct Choice {
    key: u64,
    /// Element to add; `None` to read the size.
    element: Option<u64>,
}

/// A transaction of the raw mix.
#[derive(Clone, Debug)]
pub struct Transaction {
    choices: Vec<Choice>,
    done: bool,
}

impl RawMix {
    /// Creates the mix that the options describe.
    pub fn new(args: &RawmixArgs) -> Self {
        let (preload, pool) = match args.elements {
            Elements::Pool100 => (PRELOAD_MIN, Some(POOL_SMALL)),
            Elements::Pool10x => {
                let preload = (PRELOADED / args.keys).max(PRELOAD_MIN);
                (preload, Some(10 * preload))
            }
            Elements::New => ((PRELOADED / args.keys).max(PRELOAD_MIN), None),
        };
        Self {
            popularity: Zipf::new(args.keys as usize, args.zipf),
            keys: args.keys,
            updates: args.updates,
            txn_len: args.txn_len as usize,
            preload,
            pool,
            added: 0,
        }
    }

    /// Fields that distinguish rows of different mixes.
    fn fields(&self, args: &RawmixArgs) -> Map<String, Value> {
        fields([
            ("keys", Value::from(args.keys)),
            ("zipf", Value::from(args.zipf)),
            ("updates", Value::from(args.updates)),
            ("txn_len", Value::from(args.txn_len)),
            ("pool", self.pool.map_or(Value::Null, Value::from)),
            ("preload", Value::from(self.preload)),
        ])
    }

    /// Empties the server and fills the sets.
    ///
    /// # Errors
    /// The server fails.
    pub fn fill(&self, control: &mut Control) -> io::Result<()> {
        control.call(&["FLUSHALL"])?;
        let mut rng = Rng::new(42);
        let range = u64::from(self.pool.unwrap_or(self.preload));
        control.load((0..u64::from(self.keys)).map(|key| {
            let mut bytes = Vec::new();
            resp::header(&mut bytes, 2 + self.preload as usize);
            resp::word(&mut bytes, b"SADD");
            resp::numbered(&mut bytes, b"set:", key);
            for _ in 0..self.preload {
                resp::numbered(&mut bytes, b"m", rng.below(range));
            }
            bytes
        }))
    }
}

impl Workload for RawMix {
    type Txn = Transaction;
    const LOOKS: bool = false;

    fn kinds(&self) -> &'static [&'static str] {
        &["mix"]
    }

    fn begin(&mut self, _client: usize, _now_ns: u64, rng: &mut Rng) -> Transaction {
        let choices = (0..self.txn_len)
            .map(|_| {
                let key = self.popularity.draw(rng) as u64;
                let element = rng.chance(self.updates).then(|| match self.pool {
                    Some(pool) => rng.below(u64::from(pool)),
                    None => {
                        self.added += 1;
                        u64::from(self.preload) + self.added
                    }
                });
                Choice { key, element }
            })
            .collect();
        Transaction { choices, done: false }
    }

    fn kind(&self, _txn: &Transaction) -> usize {
        0
    }

    fn shape(&self, txn: &Transaction) -> Shape {
        match txn.choices.iter().all(|choice| choice.element.is_none()) {
            _ if txn.choices.len() == 1 => Shape::Single,
            true => Shape::Reads,
            false => Shape::Updates,
        }
    }

    fn step(&mut self, txn: &mut Transaction, _replies: &[ClientReply], ops: &mut Ops) -> bool {
        if std::mem::replace(&mut txn.done, true) {
            return false;
        }
        for choice in &txn.choices {
            match choice.element {
                None => ops.read("SCARD", ("set:", choice.key), &[]),
                Some(element) => {
                    let mut buffer = itoa::Buffer::new();
                    let member = ["m", buffer.format(element)].concat();
                    ops.write("SADD", ("set:", choice.key), &[member.as_bytes()]);
                }
            }
        }
        true
    }

    fn restart(&mut self, txn: &mut Transaction) {
        txn.done = false;
    }
}

/// Runs the bench.
///
/// # Errors
/// A server cannot be started or fails.
pub fn run(args: &RawmixArgs, program: &Path) -> io::Result<Report> {
    let common = &args.common;
    let servers = conditions::start(common, program)?;
    let redis = match args.vs {
        Some(Peer::Redis) => Some(Server::redis(&common.durability, &common.dir)?),
        None => None,
    };
    let mix = RawMix::new(args);
    let fields = mix.fields(args);
    let mut contestants = Vec::new();
    for contestant in conditions::contestants(&servers, &fields) {
        let more = match condition(&contestant.labels) {
            "none" => Some(Api::Pipelined),
            "full" => Some(Api::Oneshot),
            _ => None,
        };
        let more =
            more.map(|api| Contestant { api, labels: contestant.labels.clone(), ..contestant });
        contestants.push(contestant);
        contestants.extend(more);
    }
    if let Some(server) = &redis {
        for api in [Api::Pipelined, Api::Oneshot, Api::Watch] {
            let mut labels = fields.clone();
            labels.insert("server".into(), "redis".into());
            labels.insert("durability".into(), common.durability.as_str().into());
            let retry = Retry::AT_ONCE;
            contestants.push(Contestant { server, claret: false, labels, api, retry });
        }
    }
    let (setting, clients) = conditions::setting(common);
    let Outcome { rows, reached } = sweep(&contestants, &clients, &setting, |_, control, _| {
        mix.fill(control)?;
        Ok(mix.clone())
    })?;
    let mut ratios = conditions::ratios(&contestants, &reached);
    let peak = |claret: bool, api: Api| {
        let at = contestants.iter().position(|c| c.claret == claret && c.api == api);
        at.and_then(|at| reached[at].peak())
    };
    ratios.insert(
        "oneshot_over_none_pipelined".into(),
        ratio(peak(true, Api::Oneshot), peak(true, Api::Pipelined)),
    );
    if redis.is_some() {
        for (name, ours, theirs) in [
            ("oneshot_over_redis_pipelined", Api::Oneshot, Api::Pipelined),
            ("oneshot_over_redis_oneshot", Api::Oneshot, Api::Oneshot),
            ("full_over_redis_watch", Api::Client, Api::Watch),
        ] {
            ratios.insert(name.into(), ratio(peak(true, ours), peak(false, theirs)));
        }
    }
    Ok(Report { rows, ratios, ..Report::default() })
}
