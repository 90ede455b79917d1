//! Commands that commute: facts that the reference has on each command, from the rules of the data types.
//!
//! Calls of two commands on one key are compared as open transactions compare them whose programs see the
//! replies. Writes count only where they change the value: otherwise they wait for no read, and no read for
//! them.

use super::samples::{Sample, Step, carry_out, part_names, samples, values};
use crate::gateway::clients::session_commands::all;
use adt::escrow::Outstanding;
use adt::{CommandSpec, Flags, Record, record};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

/// Time at which the keys of sample values expire that do, in milliseconds since 1970.
const EXPIRY_MS: u64 = 1 << 41;

/// Number of calls of a command that are compared on one value, at most.
const CALLS_MAX: usize = 24;

/// Number of commands of a class that are named although most of their kind are in it.
const NAMED_MAX: usize = 4;

/// Groups of commands on values, and what it depends on whether calls commute that do so in some values, or
/// with some arguments. (Commands on keys are tried on the values of the last group as sources.)
const GROUPS: [(&str, Option<&str>); 11] = [
    ("bag", Some("if the number leaves the mean, the smallest or the largest as it was")),
    ("counter", Some("while the bounds leave room for both and no reply changes")),
    ("hash", Some("if the write adds and removes no field")),
    ("log", None),
    ("set", Some("if the member that is taken is another one")),
    ("sorted-set", Some("if what is written lies outside of what the other one reads or writes")),
    ("stream", None),
    ("string", Some("if both write the same value")),
    ("topk", Some("if the item stays outside of what is read")),
    ("uid", None),
    ("list", Some("if the list is long enough to keep its ends apart")),
];

/// Condition of commands on keys.
const OF_KEYS: &str = "if the key exists before and afterwards and its expiry stays";

/// Cases in which two commands commute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Commuting {
    Always,
    /// If they name different parts of the value, which are called so.
    Apart(&'static str),
    /// In some values, or with some arguments.
    Sometimes,
    Never,
}

/// A call that reads the value or changes it.
struct SampleCall {
    steps: Vec<Step>,
    part: Option<usize>,
}

impl SampleCall {
    fn commutes(&self, other: &Self, value: Option<&Record>) -> bool {
        let commute = |a: &Step, b: &Step| {
            // The order of the commits is that of operations whose replies come later.
            (!a.seen && !b.seen)
                || !(a.announced && b.announced)
                    && (record::commutes(value, a.access(), b.access()) || fit(a, b, value))
        };
        self.steps.iter().all(|a| other.steps.iter().all(|b| commute(a, b)))
    }
}

/// Whether the value is a quantity that leaves room for both.
fn fit(a: &Step, b: &Step, value: Option<&Record>) -> bool {
    let shares = a.op.share().zip(b.op.share()).zip(record::amount(value));
    shares.is_some_and(|((a, b), amount)| Outstanding::of(a).leaves_room(amount, &[b]))
}

/// The call of a sample on a value, if it has an effect that the command is for.
fn call(
    spec: &CommandSpec,
    sample: &Sample,
    value: Option<&Record>,
    other: Option<&Record>,
) -> Option<SampleCall> {
    let steps = sample.steps(value, other)?;
    let changes = carry_out(sample, &mut value.cloned(), other);
    let has_effect = changes == spec.flags.has(Flags::WRITE);
    (!steps.is_empty() && has_effect).then_some(SampleCall { steps, part: sample.part })
}

/// Calls of the commands of a group, on each of some values.
struct Compared {
    commands: Vec<&'static CommandSpec>,
    values: Vec<(Option<Record>, Vec<Vec<SampleCall>>)>,
}

impl Compared {
    fn of(commands: Vec<&'static CommandSpec>, values: Vec<Option<Record>>) -> Self {
        let samples: Vec<_> = commands.iter().map(|spec| (*spec, samples(spec))).collect();
        let last = values.last().cloned().flatten();
        let on = |value: Option<Record>| {
            let calls = samples.iter().map(|(spec, samples)| {
                let call = |sample: &Sample, other| call(spec, sample, value.as_ref(), other);
                let calls = samples.iter().filter_map(|sample| call(sample, last.as_ref()));
                let compounds = samples.iter().filter(|sample| sample.is_compound());
                let calls = calls.chain(compounds.filter_map(|sample| call(sample, None)));
                let calls: Vec<_> = calls.collect();
                let stride = calls.len().div_ceil(CALLS_MAX).max(1);
                calls.into_iter().step_by(stride).collect()
            });
            let calls = calls.collect();
            (value, calls)
        };
        let values = values.into_iter().map(on).collect();
        Self { commands, values }
    }

    /// Cases in which two of the commands commute; `None` if there is no value on which both have an effect.
    fn compare(&self, a: usize, b: usize) -> Option<Commuting> {
        let other = part_names(self.commands[b]);
        let part = part_names(self.commands[a]).into_iter().find(|part| other.contains(part));
        // Whether there are calls that do not commute, and some that do: with one part, and with two.
        let mut found = [[false; 2]; 2];
        for (value, calls) in &self.values {
            for x in &calls[a] {
                for y in &calls[b] {
                    let differ = x.part.zip(y.part).is_some_and(|(x, y)| x != y);
                    let apart = differ && part.is_some();
                    let commute = x.commutes(y, value.as_ref());
                    found[usize::from(apart)][usize::from(commute)] = true;
                }
            }
        }
        let [beside, apart] = found;
        let only = [false, true];
        match [beside[0] || apart[0], beside[1] || apart[1]] {
            [false, false] => None,
            _ if apart == only && beside != only => part.map(Commuting::Apart),
            [false, true] => Some(Commuting::Always),
            [true, false] => Some(Commuting::Never),
            [true, true] => Some(Commuting::Sometimes),
        }
    }

    fn partner(&self, command: usize, other: usize) -> Partner {
        let spec = self.commands[other];
        Partner {
            text: shown(spec),
            writes: spec.flags.has(Flags::WRITE),
            commuting: self.compare(command, other),
        }
    }
}

/// Another command, or a kind of commands, beside which a command is.
struct Partner {
    text: String,
    writes: bool,
    commuting: Option<Commuting>,
}

/// Cases in which a command commutes with which others.
type Cases = Vec<(String, String)>;

/// For each group of commands those of which the same is to be told, and that. Commands are left out that
/// transactions do not take, or that concern no value.
pub(super) fn by_groups() -> BTreeMap<&'static str, Vec<(Vec<String>, Cases)>> {
    let mut groups: BTreeMap<&str, Vec<(Vec<String>, Cases)>> = BTreeMap::new();
    for spec in all() {
        let Some(facts) = facts().get(spec.name).filter(|facts| !facts.is_empty()) else {
            continue;
        };
        let kinds = groups.entry(spec.group).or_default();
        match kinds.iter_mut().find(|(_, of_kind)| of_kind == facts) {
            Some((names, _)) => names.push(shown(spec)),
            None => kinds.push((vec![shown(spec)], facts.clone())),
        }
    }
    groups
}

/// Cases on each command.
fn facts() -> &'static BTreeMap<&'static str, Cases> {
    static FACTS: OnceLock<BTreeMap<&str, Cases>> = OnceLock::new();
    FACTS.get_or_init(all_facts)
}

fn shown(spec: &CommandSpec) -> String {
    format!("`{}`", spec.name.to_uppercase())
}

fn all_facts() -> BTreeMap<&'static str, Cases> {
    let is_barred =
        |spec: &CommandSpec| spec.flags.has(Flags::NO_TXN) || spec.flags.has(Flags::NO_MULTI);
    let commands_of = |group: &str| -> Vec<&'static CommandSpec> {
        let of_group = all().iter().filter(|spec| spec.group == group && !is_barred(spec));
        of_group.copied().collect()
    };
    let keys = commands_of("generic");
    let mut facts = BTreeMap::new();
    let mut values_of_keys = vec![None];
    // For each command on keys the kinds of commands on values beside it.
    let mut beside_keys: Vec<Vec<Partner>> = keys.iter().map(|_| Vec::new()).collect();
    for (group, condition) in GROUPS {
        let commands = commands_of(group);
        let samples: Vec<_> = commands.iter().map(|spec| (*spec, samples(spec))).collect();
        let values = values(group, &samples);
        let made = values.iter().flatten().take(2);
        values_of_keys.extend(made.flat_map(|record| {
            let expiring = record.clone().expiring(Some(EXPIRY_MS));
            [Some(record.clone()), Some(expiring)]
        }));
        let count = commands.len();
        let compared = Compared::of([commands.clone(), keys.clone()].concat(), values);
        for (at, spec) in commands.iter().enumerate() {
            let partners: Vec<_> = (0..count).map(|other| compared.partner(at, other)).collect();
            facts.insert(spec.name, told(&partners, condition));
        }
        for (at, partners) in beside_keys.iter_mut().enumerate() {
            partners.extend((0..count).map(|other| compared.partner(count + at, other)));
        }
    }
    let compared = Compared::of(keys.clone(), values_of_keys);
    for (at, (spec, beside)) in keys.iter().zip(beside_keys).enumerate() {
        let mut partners: Vec<_> =
            (0..keys.len()).map(|other| compared.partner(at, other)).collect();
        partners.extend([false, true].map(|writes| kind(&beside, writes)));
        facts.insert(spec.name, told(&partners, Some(OF_KEYS)));
    }
    facts
}

/// The commands on values that read or write, as one partner.
fn kind(partners: &[Partner], writes: bool) -> Partner {
    let of_kind = partners.iter().filter(|partner| partner.writes == writes);
    let classes: BTreeSet<_> = of_kind.filter_map(|partner| partner.commuting).collect();
    let several = if classes.is_empty() { None } else { Some(Commuting::Sometimes) };
    let commuting = if classes.len() == 1 { classes.first().copied() } else { several };
    let text = if writes { "writes of the value" } else { "reads of the value" };
    Partner { text: text.to_owned(), writes, commuting }
}

/// Facts on a command, by classes of its partners.
fn told(partners: &[Partner], condition: Option<&str>) -> Cases {
    let classes: BTreeSet<_> = partners.iter().filter_map(|partner| partner.commuting).collect();
    let tell = |class: Commuting| {
        let when = match class {
            Commuting::Always => "always".to_owned(),
            Commuting::Apart(part) => format!("if the {part} is another one,"),
            Commuting::Sometimes => format!("{},", condition.expect("a condition of the group")),
            Commuting::Never => "never".to_owned(),
        };
        let names = [false, true].map(|writes| names(partners, class, writes)).concat();
        (when, names.join(", "))
    };
    classes.into_iter().map(tell).collect()
}

/// The partners of a class that read or write; those that are most of their kind without their names.
fn names(partners: &[Partner], class: Commuting, writes: bool) -> Vec<String> {
    let kind = if writes { "write" } else { "read" };
    let compared = partners.iter().filter(|p| p.writes == writes && p.commuting.is_some());
    let (of_class, others): (Vec<_>, Vec<_>) =
        compared.partition(|partner| partner.commuting == Some(class));
    match of_class.len() {
        0 | 1 => {}
        _ if others.is_empty() => return vec![format!("every {kind}")],
        count if count > others.len() && count > NAMED_MAX => {
            return vec![format!("every other {kind}")];
        }
        _ => {}
    }
    of_class.into_iter().map(|partner| partner.text.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use adt::Keys;

    fn told_of(name: &str) -> Vec<String> {
        facts()[name].iter().map(|(when, others)| format!("{when} with {others}")).collect()
    }

    #[test]
    fn what_commutes_is_told_by_parts_of_the_value() {
        let of_sadd = [
            "if the member is another one, with `SISMEMBER`, `SMISMEMBER`, `SADD`, `SMOVE`, `SREM`",
            "never with every other read, `SDIFFSTORE`, `SINTERSTORE`, `SPOP`, `SUNIONSTORE`",
        ];
        assert_eq!(told_of("sadd"), of_sadd);
        assert_eq!(told_of("scard"), ["always with every read", "never with every write"]);
        assert_eq!(told_of("incr"), ["never with every read, every write"]);
        assert_eq!(told_of("del"), ["never with every read, every write"]);
        assert_eq!(told_of("bag.add")[0], "always with `BAG.ADD`");
    }

    #[test]
    fn every_command_on_values_that_transactions_take_is_told() {
        let groups: Vec<_> = GROUPS.iter().map(|(group, _)| *group).chain(["generic"]).collect();
        for spec in all() {
            let taken = !spec.flags.has(Flags::NO_TXN) && !spec.flags.has(Flags::NO_MULTI);
            let expected = taken && groups.contains(&spec.group) && spec.keys != Keys::None;
            let told = facts().get(spec.name).is_some_and(|facts| !facts.is_empty());
            assert_eq!(told, expected, "{}", spec.name);
        }
    }

    #[test]
    fn conditions_are_told_where_they_are_needed() {
        for (group, condition) in GROUPS {
            let of_group = all().iter().filter(|spec| spec.group == group);
            let mut told = of_group.filter_map(|spec| facts().get(spec.name)).flatten();
            let condition = condition.map(|condition| format!("{condition},"));
            assert!(condition.is_none_or(|c| told.any(|(when, _)| *when == c)), "{group}");
        }
    }

    #[test]
    fn what_is_compared_is_symmetric() {
        let commands: Vec<_> = all().iter().filter(|spec| spec.group == "list").copied().collect();
        let samples: Vec<_> = commands.iter().map(|spec| (*spec, samples(spec))).collect();
        let values = values("list", &samples);
        let group = Compared::of(commands, values);
        for a in 0..group.commands.len() {
            for b in 0..a {
                assert_eq!(group.compare(a, b), group.compare(b, a));
            }
        }
    }
}
