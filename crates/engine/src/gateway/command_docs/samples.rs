//! Sample calls of commands, and sample values that they are carried out on.

use adt::command::syntax;
use adt::record::{self, apply, query};
use adt::{
    Access, ArgBuf, Args, Attempt, Blob, Command, CommandSpec, Compound, Ctx, Flags, Handler, Op,
    Record, Timestamp,
};
use std::collections::BTreeSet;

/// Names of arguments that tell which part of a value a call is about.
pub(super) const PARTS: [&str; 5] = ["member", "field", "item", "offset", "id"];

/// Number of values that calls of one group of commands are carried out on, at most.
const VALUES_MAX: usize = 16;

/// Calls that make a value with several parts, from which others are made.
const FIRST: [(&str, &[&str]); 7] = [
    ("counter", &["counter.set k0 5 min 4 max 6"]),
    ("string", &["set k0 abcdefghijkl"]),
    ("hash", &["hset k0 a 1 b 1 c 1", "hexpire k0 1000000 fields 2 a b"]),
    ("list", &["rpush k0 1 3 v 0 1 3 v 0"]),
    ("set", &["sadd k0 a c d e"]),
    ("sorted-set", &["zadd k0 1 a 2 b 3 c 7 d"]),
    (
        "stream",
        &[
            "xadd k0 1-1 a 1",
            "xadd k0 2-1 a 1",
            "xgroup create k0 g 0",
            "xreadgroup group g g streams k0 >",
            "xadd k0 3-1 a 1",
        ],
    ),
];

/// One operation on a key, as an open transaction has it.
pub(super) struct Step {
    pub op: Op,
    /// Whether the program sees its reply before the commit, and not behind it.
    pub seen: bool,
    /// Whether it announces a write, and so excludes others that do.
    pub announced: bool,
}

impl Step {
    pub fn access(&self) -> Access<'_, Op> {
        Access { op: &self.op, observed: self.seen }
    }
}

/// Operations whose replies come first, whether they announce a write, and what follows from them.
type FirstSteps = (Vec<(Blob, Op)>, bool, Option<Compound>);

/// A call, and the key in it that is looked at.
pub(super) struct Sample {
    command: Command,
    key: Blob,
    /// Which of two parts of the value it names, if it names one.
    pub part: Option<usize>,
}

impl Sample {
    fn all_of(args: &Args<'_>, spec: &CommandSpec, part: Option<usize>) -> Vec<Self> {
        let Handler::Data(parse) = spec.handler else { return Vec::new() };
        let positions = spec.keys.positions(args).unwrap_or_default();
        let keys: BTreeSet<_> = positions.iter().filter_map(|at| args.get(*at)).collect();
        let of_key = |key: &[u8]| Some(Self { command: parse(args).ok()?, key: key.into(), part });
        keys.into_iter().filter_map(of_key).collect()
    }

    /// Operations of the call on the value of its key, while the other keys have another one; nothing for a
    /// call that finds nothing to do.
    pub fn steps(&self, value: Option<&Record>, other: Option<&Record>) -> Option<Vec<Step>> {
        let (ops, announced, compound) = self.first_steps()?;
        let of_key = |ops: &[(Blob, Op)], seen| -> Vec<Step> {
            let ops = ops.iter().filter(|(key, _)| *key == self.key);
            ops.map(|(_, op)| Step { op: op.clone(), seen, announced: announced && seen }).collect()
        };
        let mut steps = of_key(&ops, true);
        if let Some(compound) = compound {
            let reply = |(key, op): &(Blob, Op)| {
                query(if *key == self.key { value } else { other }, op, &ctx())
            };
            let replies: Vec<_> = ops.iter().map(reply).collect();
            steps.extend(of_key(&compound.plan(&replies)?.writes, false));
        }
        Some(steps)
    }

    /// Whether the values of other keys matter.
    pub fn is_compound(&self) -> bool {
        matches!(self.command, Command::Compound(_))
    }

    /// Operations whose replies come first, whether they announce a write, and what follows from them.
    fn first_steps(&self) -> Option<FirstSteps> {
        let single = |key: &Blob, op: &Op| match op.chosen_first(key) {
            Some(chosen) => (chosen.reads.clone(), true, Some(chosen)),
            None => (vec![(key.clone(), op.clone())], false, None),
        };
        Some(match &self.command {
            Command::Single(key, op) => single(key, op),
            Command::Multi { ops, .. } => (ops.clone(), false, None),
            Command::Compound(compound) => (compound.reads.clone(), false, Some(compound.clone())),
            Command::Blocking(blocking) => {
                match blocking.attempts.iter().find(|(key, _)| *key == self.key)? {
                    (key, Attempt::Take { op, .. }) => single(key, op),
                    (_, Attempt::Move(moved)) => (moved.reads.clone(), false, Some(moved.clone())),
                }
            }
            Command::Awaiting(_) => return None,
        })
    }
}

/// Calls of a command: its shapes with several values.
pub(super) fn samples(spec: &CommandSpec) -> Vec<Sample> {
    let mut found = Vec::new();
    for variant in 0..4 {
        let calls = |part| syntax::calls_with(spec, |name| word(name, part, variant).to_owned());
        for (call, other) in calls(0).iter().zip(calls(1)) {
            if *call == other {
                found.extend(Sample::all_of(&call.args(), spec, None));
            } else {
                found.extend(Sample::all_of(&call.args(), spec, Some(0)));
                found.extend(Sample::all_of(&other.args(), spec, Some(1)));
            }
        }
    }
    found
}

/// Names of the arguments of a command that tell which part of a value it is about.
pub(super) fn part_names(spec: &CommandSpec) -> Vec<&'static str> {
    let has = |part: &&str| spec.syntax.split([' ', '[', ']', '<', '>']).any(|word| word == *part);
    PARTS.into_iter().filter(has).collect()
}

/// A value for an argument.
fn word(name: &str, part: usize, variant: usize) -> &'static str {
    let low = ["min", "start", "from-id", "low"].contains(&name);
    let high = ["max", "end", "stop", "to-id", "high"].contains(&name);
    match name {
        "member" | "field" | "item" => ["a", "b"][part],
        "offset" => ["0", "64"][part],
        "id" => [["1-1", "2-1"][part], ">", "0", "$"][variant],
        "encoding" => "u8",
        "group" | "consumer" => "g",
        _ if low => ["0", "1", "-", "[b"][variant],
        _ if high => ["1", "5", "+", "[c"][variant],
        _ => ["1", "3", "v", "0"][variant],
    }
}

/// Values that writes of a group make, each from one of those before it.
pub(super) fn values(group: &str, commands: &[(&CommandSpec, Vec<Sample>)]) -> Vec<Option<Record>> {
    let mut first = None;
    for line in FIRST.iter().filter(|(of, _)| *of == group).flat_map(|(_, lines)| *lines) {
        let call = ArgBuf::of(line.split(' '));
        let spec = record::command(line.split(' ').next().unwrap_or_default().as_bytes());
        let samples = spec.map(|spec| Sample::all_of(&call.args(), spec, None)).unwrap_or_default();
        samples.iter().for_each(|sample| _ = carry_out(sample, &mut first, None));
    }
    let mut values = vec![None];
    values.extend(first.map(Some));
    let mut from = 0;
    while from < values.len() && values.len() < VALUES_MAX {
        for (spec, samples) in commands.iter().filter(|(spec, _)| spec.flags.has(Flags::WRITE)) {
            let made = samples.iter().find_map(|sample| {
                let (mut next, other) = (values[from].clone(), values.last()?.clone());
                carry_out(sample, &mut next, other.as_ref());
                let expires = next.as_ref().is_some_and(|record| record.expire_at_ms().is_some());
                let lasts = !expires || spec.group == "generic";
                (lasts && !values.contains(&next)).then_some(next)
            });
            if values.len() < VALUES_MAX {
                values.extend(made);
            }
        }
        from += 1;
    }
    values
}

/// Carries out a call. Tells whether it has changed the value.
pub(super) fn carry_out(
    sample: &Sample,
    value: &mut Option<Record>,
    other: Option<&Record>,
) -> bool {
    let before = value.clone();
    let steps = sample.steps(before.as_ref(), other).unwrap_or_default();
    for step in steps.iter().filter(|step| step.op.is_write()) {
        apply(value, &step.op, &ctx());
    }
    let content = |record: Option<&Record>| record.map(|r| (r.value.clone(), r.expire_at_ms()));
    content(before.as_ref()) != content(value.as_ref())
}

fn ctx() -> Ctx {
    Ctx { now_ms: 1_000_000, ts: Timestamp::from_micros(1_000_000_000), seed: 1 }
}
