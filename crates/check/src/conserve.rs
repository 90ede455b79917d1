//! Invariants that a workload promises: the total of a bank is constant, and bounds hold.

use crate::history::{Bank, History, Op, Outcome, Txn, Word};
use crate::model;
use crate::value::{Value, show_word};
use crate::verdict::{Anomaly, Verdict};
use std::collections::BTreeMap;

/// Checks that every transaction that knows all balances at its end (from `GET`, `MGET` and the
/// replies of increments) finds a total of `bank.total`.
///
/// Transfers are transactions of `INCRBY` and `DECRBY` whose sum is zero, or that read and `SET`.
pub fn bank(history: &History, bank: &Bank) -> Verdict {
    let mut verdict = Verdict::new("bank");
    for txn in history.txns.iter().filter(|txn| txn.outcome == Outcome::Ok) {
        let mut known: BTreeMap<&Word, i64> = BTreeMap::new();
        txn.ops.iter().for_each(|op| learn(op, &mut known));
        let balances: Option<Vec<i64>> =
            bank.accounts.iter().map(|account| known.get(account).copied()).collect();
        let Some(balances) = balances else { continue };
        verdict.count("snapshots", 1);
        let sum: i128 = balances.iter().map(|balance| i128::from(*balance)).sum();
        if sum != i128::from(bank.total) {
            let text = format!("the accounts sum up to {sum}, not to {}\n{txn}", bank.total);
            verdict.report(Anomaly::new("wrong-total", text, vec![txn.id]));
        }
    }
    verdict
}

/// Records what an operation reveals about the value of its key after it.
fn learn<'a>(op: &'a Op, known: &mut BTreeMap<&'a Word, i64>) {
    let name = op.words.first().map(|name| model::lower(name)).unwrap_or_default();
    let number = |value: &Value| match value {
        Value::Nil => Some(0),
        value => std::str::from_utf8(&value.canonical()).ok()?.parse().ok(),
    };
    if op.reply.as_ref().is_some_and(Value::is_error) {
        return;
    }
    match (name.as_str(), &op.words[1..], &op.reply) {
        (
            "get" | "counter.get" | "incrby" | "decrby" | "incr" | "decr" | "counter.incr",
            [key, ..],
            Some(reply),
        ) => {
            known.extend(number(reply).map(|value| (key, value)));
        }
        ("mget", keys, Some(Value::List(replies))) => {
            let pairs = keys.iter().zip(replies);
            known.extend(pairs.filter_map(|(key, reply)| Some((key, number(reply)?))));
        }
        ("set", [key, value, ..], _) => {
            known.extend(number(&Value::text(value)).map(|value| (key, value)));
        }
        (_, [key, ..], _) if !model::is_read(&op.words) => {
            known.remove(key);
        }
        _ => {}
    }
}

/// Checks every counter that has bounds: no reply outside of them, and no more granted than
/// available. `None` if no counter has bounds.
///
/// A counter's bounds are those of its first `COUNTER.SET ... MIN ... MAX ...`; for counters that
/// are set again only the replies are checked.
pub fn bounds(history: &History) -> Option<Verdict> {
    let mut counters: BTreeMap<&Word, Counter> = BTreeMap::new();
    for txn in history.txns.iter().filter(|txn| txn.outcome != Outcome::Fail) {
        for op in &txn.ops {
            if let Some((key, set)) = parse_set(op) {
                let entry = counters.entry(key).or_insert(set);
                entry.sets += 1;
                if (entry.low, entry.high) != (set.low, set.high) {
                    entry.rebound = true;
                }
            }
        }
    }
    counters
        .retain(|_, counter| !counter.rebound && (counter.low.is_some() || counter.high.is_some()));
    if counters.is_empty() {
        return None;
    }
    let mut verdict = Verdict::new("bounds");
    verdict.count("counters", counters.len());
    for txn in history.txns.iter().filter(|txn| txn.outcome != Outcome::Fail) {
        for op in &txn.ops {
            if let Some(counter) = op.words.get(1).and_then(|key| counters.get_mut(key)) {
                apply(counter, txn, op, &mut verdict);
            }
        }
    }
    for (key, counter) in counters.iter().filter(|(_, counter)| counter.sets == 1) {
        let value = i128::from(counter.value);
        let least = counter.low.map(|low| (i128::from(low), value + counter.up_most));
        let most = counter.high.map(|high| (i128::from(high), value - counter.down_most));
        // Even if every helpful indefinite change took effect, and no other.
        if let Some((low, possible)) = least
            && possible - counter.down_least < low
        {
            verdict.report(overdrawn(key, possible - counter.down_least, low, "minimum"));
        }
        if let Some((high, possible)) = most
            && possible + counter.up_least > high
        {
            verdict.report(overdrawn(key, possible + counter.up_least, high, "maximum"));
        }
    }
    Some(verdict)
}

fn overdrawn(key: &Word, value: i128, bound: i128, name: &str) -> Anomaly {
    let key = show_word(key);
    let text = format!("all that was granted on {key} leads to {value}, but its {name} is {bound}");
    Anomaly::new("overdrawn", text, Vec::new())
}

#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    value: i64,
    low: Option<i64>,
    high: Option<i64>,
    /// Sums of additions and subtractions that certainly (`least`) and possibly (`most`) took
    /// effect.
    up_least: i128,
    up_most: i128,
    down_least: i128,
    down_most: i128,
    sets: usize,
    rebound: bool,
}

fn parse_set(op: &Op) -> Option<(&Word, Counter)> {
    let number = |word: &Word| std::str::from_utf8(word).ok()?.parse::<i64>().ok();
    let [name, key, value, options @ ..] = &op.words[..] else { return None };
    if model::lower(name) != "counter.set" || op.reply.as_ref().is_some_and(Value::is_error) {
        return None;
    }
    let mut counter = Counter { value: number(value)?, ..Counter::default() };
    for option in options.chunks(2) {
        match (model::lower(&option[0]).as_str(), option) {
            ("min", [_, bound]) => counter.low = Some(number(bound)?),
            ("max", [_, bound]) => counter.high = Some(number(bound)?),
            _ => return None,
        }
    }
    Some((key, counter))
}

fn apply(counter: &mut Counter, txn: &Txn, op: &Op, verdict: &mut Verdict) {
    let name = model::lower(&op.words[0]);
    let shown = matches!(name.as_str(), "counter.get" | "counter.incr");
    if let (true, Some(Value::Int(value))) = (shown, &op.reply) {
        verdict.count("replies", 1);
        let low = counter.low.is_some_and(|low| *value < low);
        let high = counter.high.is_some_and(|high| *value > high);
        // Before it is set, a counter is zero and has no bounds.
        if (low || high) && *value != 0 {
            let text = format!("{op} is outside of the counter's bounds\n{txn}");
            verdict.report(Anomaly::new("out-of-bounds", text, vec![txn.id]));
        }
    }
    let delta = match (name.as_str(), op.words.get(2)) {
        ("counter.add" | "counter.incr" | "counter.try", Some(word)) => {
            std::str::from_utf8(word).ok().and_then(|text| text.parse::<i64>().ok())
        }
        _ => None,
    };
    let Some(delta) = delta.map(i128::from) else { return };
    let certain = txn.outcome == Outcome::Ok;
    let granted = match &op.reply {
        Some(Value::Error(_)) => return,
        Some(Value::Int(0)) if name == "counter.try" => return,
        None if name == "counter.try" => false,
        _ => certain,
    };
    let (least, most) = match delta {
        0.. => (&mut counter.up_least, &mut counter.up_most),
        _ => (&mut counter.down_least, &mut counter.down_most),
    };
    *most += delta.abs();
    if granted {
        *least += delta.abs();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialogue;

    #[test]
    fn money_is_neither_made_nor_lost() {
        let judge = |text: &str| {
            let history = dialogue::parse(text).unwrap();
            let verdict = bank(&history, history.bank.as_ref().unwrap());
            (verdict.valid, verdict.counts.get("snapshots").copied().unwrap_or(0))
        };
        let begin = "bank 100 a b\np0 : set a 60 | set b 40\n";
        assert_eq!(judge(&format!("{begin}p0 : get a -> 60 | get b -> 40")), (true, 2));
        assert_eq!(judge(&format!("{begin}p0 : mget a b -> [50 40]")), (false, 2));
        assert_eq!(
            judge(&format!("{begin}p0 : incrby a -10 -> 50 | incrby b 10 -> 50")),
            (true, 2)
        );
        assert_eq!(
            judge(&format!("{begin}p0 : incrby a -10 -> 50 | incrby b 10 -> 60")),
            (false, 2)
        );
        assert_eq!(judge(&format!("{begin}p0 : get a -> 60")), (true, 1));
        assert_eq!(judge(&format!("{begin}p0 > mget a b\np0 !")), (true, 1));
    }

    #[test]
    fn bounds_hold_and_no_more_is_granted_than_there_is() {
        let judge = |text: &str| {
            let text = format!("p0 : counter.set c 3 min 0 max 9 -> OK\n{text}");
            bounds(&dialogue::parse(&text).unwrap()).unwrap().valid
        };
        assert!(judge("p0 : counter.try c -3 -> 1\np0 : counter.try c -1 -> 0"));
        assert!(!judge("p0 : counter.try c -3 -> 1\np0 : counter.try c -1 -> 1"));
        assert!(judge(
            "p0 : counter.try c -3 -> 1\np1 > counter.try c 1\np0 : counter.try c -1 -> 1"
        ));
        assert!(judge("p0 : counter.try c -3 -> 1\np1 > counter.try c -1\np1 ?"));
        assert!(!judge("p0 : counter.try c 7 -> 1"));
        assert!(!judge("p0 : counter.get c -> -1"));
        assert!(!judge("p0 : counter.incr c 7 -> 10"));
        assert!(judge("p0 : counter.incr c 7 -> !ERR"));
        assert!(bounds(&dialogue::parse("p0 : counter.get c -> -1").unwrap()).is_none());
    }
}
