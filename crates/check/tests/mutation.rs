//! The checkers against generated histories: no false alarm on valid ones, and almost no miss among
//! those that were made invalid.
//!
//! The expected verdict on a mutant is determined by other means than the checkers use: exhaustive
//! search for an order (for the observations of clients), and plain simulation in timestamp order
//! with a transitive closure over all pairs (for timestamps).

mod generate;

use check::linear::{Found, search};
use check::model::{self, Model};
use check::{History, Outcome, Txn, Value, Verdict};
use generate::{Options, SplitMix64, Workload, observed_values, renumber};

const UNIQUE: [Workload; 4] =
    [Workload::Lists, Workload::Registers, Workload::Sets, Workload::Unique];

fn explain(verdict: &Verdict, history: &History) -> String {
    format!("{}\n{}", verdict.to_text(), history.to_jsonl())
}

#[test]
fn a_thousand_valid_histories_raise_no_alarm() {
    let workloads = [UNIQUE.as_slice(), &[Workload::Everything, Workload::Counters]].concat();
    let mut observed = 0;
    for seed in 0..1_000 {
        let mut random = SplitMix64(seed);
        let options = Options {
            workload: *random.pick(&workloads),
            txns: 40 + random.below(80),
            processes: 2 + random.below(7),
            keys: 1 + random.below(4),
            trouble: *random.pick(&[0, 5, 15]),
            stamp_indefinite: random.percent(70),
            dispatch: random.percent(40),
        };
        let history = generate::history(&mut random, &options);
        observed += observed_values(&history);
        for verdict in check::check_all(&history) {
            assert!(verdict.valid, "seed {seed}: {}", explain(&verdict, &history));
            assert!(!verdict.counts.contains_key("unmodelled"), "seed {seed}");
            let undecided = verdict.counts.get("undecided_keys");
            assert_eq!(undecided, None, "seed {seed}: {}", explain(&verdict, &history));
        }
        let again = History::from_lines(history.to_jsonl().lines()).unwrap();
        assert_eq!(again.txns.len(), history.txns.len());
    }
    assert!(observed > 100_000, "only {observed} values were read");
}

#[test]
fn a_long_history_is_within_every_bound() {
    let mut random = SplitMix64(1);
    let options = Options {
        workload: Workload::Unique,
        txns: 3_000,
        processes: 16,
        keys: 8,
        trouble: 3,
        stamp_indefinite: true,
        dispatch: true,
    };
    let history = generate::history(&mut random, &options);
    for verdict in check::check_all(&history) {
        assert!(verdict.valid, "{}", verdict.to_text());
        let given_up = ["skipped_keys", "registers_not_inferred", "undecided_keys"];
        assert!(given_up.iter().all(|name| !verdict.counts.contains_key(name)), "{verdict:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_history_and_verdict() {
    let options = small(Workload::Everything, 30);
    let run = || {
        let history = generate::history(&mut SplitMix64(7), &options);
        (history.to_jsonl(), check::check_main(&history.to_jsonl(), true))
    };
    assert_eq!(run(), run());
}

/// Statistics of a checker's verdicts on mutants.
#[derive(Debug, Default)]
struct Score {
    valid: usize,
    false_alarms: usize,
    invalid: usize,
    missed: usize,
}

impl Score {
    fn add(&mut self, deserved: bool, verdict: &Verdict) {
        match (deserved, verdict.valid) {
            (true, true) => self.valid += 1,
            (true, false) => self.false_alarms += 1,
            (false, false) => self.invalid += 1,
            (false, true) => self.missed += 1,
        }
    }

    fn missed_percent(&self) -> f64 {
        100.0 * self.missed as f64 / (self.missed + self.invalid) as f64
    }
}

fn small(workload: Workload, txns: usize) -> Options {
    Options {
        workload,
        txns,
        processes: 4,
        keys: 2,
        trouble: 0,
        stamp_indefinite: true,
        dispatch: false,
    }
}

#[test]
fn cycles_agrees_with_exhaustive_search() {
    for workload in UNIQUE {
        let mut score = Score::default();
        for seed in 0..2_500 {
            let mut random = SplitMix64(seed);
            let mut options = small(workload, 6 + random.below(9));
            options.dispatch = random.percent(30);
            let mut history = generate::history(&mut random, &options);
            if !mutate(&mut random, &mut history) {
                continue;
            }
            let ids: Vec<usize> = (0..history.txns.len()).collect();
            let deserved = match search(&history.txns, &ids, 50_000) {
                Found::Order(_) => true,
                Found::None { .. } => false,
                Found::Undecided => continue,
            };
            let verdict = check::cycle::check(&history);
            score.add(deserved, &verdict);
            assert!(!deserved || verdict.valid, "seed {seed}: {}", explain(&verdict, &history));
        }
        assert!(score.invalid > 300 && score.valid > 100, "{workload:?}: {score:?}");
        assert!(score.missed_percent() <= 1.0, "{workload:?}: {score:?}");
    }
}

#[test]
fn replay_agrees_with_plain_simulation() {
    for workload in [Workload::Lists, Workload::Unique, Workload::Everything, Workload::Counters] {
        let mut score = Score::default();
        for seed in 0..3_000 {
            let mut random = SplitMix64(seed ^ 0xabcd_0000);
            let mut options = small(workload, 6 + random.below(20));
            options.dispatch = random.percent(30);
            options.trouble = 8;
            let mut history = generate::history(&mut random, &options);
            // Such transactions could explain a mutant after all, and the simulation does not try
            // them.
            history.txns.retain(|txn| txn.outcome != Outcome::Info || txn.ts.is_some());
            history = renumber(history.txns);
            if !mutate(&mut random, &mut history) {
                continue;
            }
            let Some(verdict) = check::replay::check(&history) else { continue };
            let mut deserved = simulate(&history);
            if !deserved && verdict.valid && verdict.counts.contains_key("places_changed") {
                let ids: Vec<usize> = (0..history.txns.len()).collect();
                deserved = matches!(search(&history.txns, &ids, 50_000), Found::Order(_));
            }
            score.add(deserved, &verdict);
            assert!(!deserved || verdict.valid, "seed {seed}: {}", explain(&verdict, &history));
            assert!(deserved || !verdict.valid, "seed {seed}: {}", explain(&verdict, &history));
        }
        assert!(score.invalid > 300 && score.valid > 100, "{workload:?}: {score:?}");
        assert_eq!(score.missed, 0, "{workload:?}: {score:?}");
    }
}

/// Removes the timestamps that a store without logged reads does not have.
fn without_read_timestamps(history: &mut History) {
    for txn in &mut history.txns {
        if txn.ops.iter().all(|op| model::is_read(&op.words)) {
            txn.ts = None;
        }
    }
}

#[test]
fn reads_need_no_timestamps_for_replay() {
    for seed in 0..600 {
        let mut random = SplitMix64(seed ^ 0x1111_0000);
        let workload = *random.pick(&[Workload::Unique, Workload::Lists, Workload::Everything]);
        let mut options = small(workload, 30 + random.below(60));
        options.trouble = *random.pick(&[0, 8]);
        options.dispatch = random.percent(30);
        let mut history = generate::history(&mut random, &options);
        without_read_timestamps(&mut history);
        let verdict = check::replay::check(&history).unwrap();
        assert!(verdict.valid, "seed {seed}: {}", explain(&verdict, &history));
        let judged = verdict.counts["transactions"];
        assert!(judged * 10 >= history.txns.len() as u64 * 7, "seed {seed}: {verdict:?}");
    }
    let mut score = Score::default();
    for seed in 0..2_500 {
        let mut random = SplitMix64(seed ^ 0x2222_0000);
        let mut options = small(Workload::Unique, 6 + random.below(9));
        options.dispatch = random.percent(30);
        let mut history = generate::history(&mut random, &options);
        if !mutate(&mut random, &mut history) {
            continue;
        }
        without_read_timestamps(&mut history);
        let ids: Vec<usize> = (0..history.txns.len()).collect();
        let possible = match search(&history.txns, &ids, 50_000) {
            Found::Order(_) => true,
            Found::None { .. } => false,
            Found::Undecided => continue,
        };
        let Some(verdict) = check::replay::check(&history) else { continue };
        // Timestamps can contradict an order that clients would accept: no false alarms to count
        // here.
        if !possible {
            score.add(false, &verdict);
        }
    }
    assert!(score.invalid > 300, "{score:?}");
    assert_eq!(score.missed, 0, "{score:?}");
}

#[test]
fn an_anomaly_of_cycles_is_never_valid_for_replay() {
    let (mut both, mut replay_only) = (0, 0);
    for seed in 0..2_000 {
        let mut random = SplitMix64(seed ^ 0x5555_0000);
        let mut options = small(Workload::Unique, 30 + random.below(40));
        options.trouble = 5;
        options.dispatch = random.percent(30);
        let mut history = generate::history(&mut random, &options);
        if !mutate(&mut random, &mut history) {
            continue;
        }
        let replay = check::replay::check(&history).unwrap();
        let cycles = check::cycle::check(&history);
        match (replay.valid, cycles.valid) {
            (true, false) => panic!("seed {seed}: {}", explain(&cycles, &history)),
            (false, false) => both += 1,
            (false, true) => replay_only += 1,
            (true, true) => {}
        }
    }
    assert!(both > 500, "{both} rejected by both, {replay_only} by replay only");
}

#[test]
fn linear_agrees_with_exhaustive_search() {
    let mut score = Score::default();
    for seed in 0..2_000 {
        let mut random = SplitMix64(seed ^ 0x7777_0000);
        let mut options = small(Workload::Counters, 8 + random.below(10));
        options.trouble = 8;
        let mut history = generate::history(&mut random, &options);
        if !mutate(&mut random, &mut history) {
            continue;
        }
        // Over all keys at once, where the checker examines each key separately.
        let ids: Vec<usize> = (0..history.txns.len()).collect();
        let found = search(&history.txns, &ids, 1_000_000);
        assert_ne!(found, Found::Undecided, "seed {seed}");
        let Some(verdict) = check::linear::check(&history) else { continue };
        score.add(matches!(found, Found::Order(_)), &verdict);
    }
    assert_eq!((score.missed, score.false_alarms), (0, 0), "{score:?}");
    assert!(score.invalid > 300 && score.valid > 100, "{score:?}");
}

/// Introduces an error that a broken store could make; `false` if there was no opportunity.
fn mutate(random: &mut SplitMix64, history: &mut History) -> bool {
    match random.below(7) {
        0 => swap_replies(random, history),
        1 => drop_write(random, history),
        2 | 3 => change_reply(random, history),
        4 => reorder_session(random, history),
        5 => fail(random, history),
        _ => shift(random, history),
    }
}

/// Places of commands for which `wanted` holds: (transaction, command).
fn places(history: &History, wanted: impl Fn(&Txn, &check::Op) -> bool) -> Vec<(usize, usize)> {
    let mut places = Vec::new();
    for txn in &history.txns {
        for (number, op) in txn.ops.iter().enumerate() {
            if wanted(txn, op) {
                places.push((txn.id, number));
            }
        }
    }
    places
}

fn reads(history: &History) -> Vec<(usize, usize)> {
    places(history, |txn, op| {
        txn.outcome == Outcome::Ok && model::is_read(&op.words) && op.reply.is_some()
    })
}

fn swap_replies(random: &mut SplitMix64, history: &mut History) -> bool {
    let reads = reads(history);
    if reads.len() < 2 {
        return false;
    }
    let (a, b) = (*random.pick(&reads), *random.pick(&reads));
    let [first, second] = [a, b].map(|(txn, op)| history.txns[txn].ops[op].clone());
    if first.words != second.words || first.reply == second.reply {
        return false;
    }
    history.txns[a.0].ops[a.1].reply = second.reply;
    history.txns[b.0].ops[b.1].reply = first.reply;
    true
}

fn drop_write(random: &mut SplitMix64, history: &mut History) -> bool {
    let writes =
        places(history, |txn, op| txn.outcome == Outcome::Ok && !model::is_read(&op.words));
    if writes.is_empty() {
        return false;
    }
    let (txn, op) = *random.pick(&writes);
    // The store answered without effect: turn the command into a harmless one.
    history.txns[txn].ops[op].words = vec![b"get".to_vec(), b"elsewhere".to_vec()];
    history.txns[txn].ops[op].reply = Some(Value::Nil);
    true
}

fn change_reply(random: &mut SplitMix64, history: &mut History) -> bool {
    let reads = reads(history);
    if reads.is_empty() {
        return false;
    }
    let (txn, op) = *random.pick(&reads);
    // Another read's reply to the same command, or a part of one.
    let words = history.txns[txn].ops[op].words.clone();
    let others: Vec<Value> = reads
        .iter()
        .map(|&(txn, op)| &history.txns[txn].ops[op])
        .filter(|other| other.words == words)
        .filter_map(|other| other.reply.clone())
        .collect();
    let reply = history.txns[txn].ops[op].reply.as_mut().unwrap();
    let before = reply.clone();
    match reply {
        Value::List(items) if !items.is_empty() && words[0] != b"mget" && random.percent(70) => {
            let at = random.below(items.len());
            match random.below(3) {
                0 => drop(items.remove(at)),
                1 => items.truncate(at),
                _ => items.swap(at, 0),
            }
        }
        _ => *reply = random.pick(&others).clone(),
    }
    !model::agree(&words, &before, reply)
}

/// Swaps two transactions of a session in time, with their timestamps.
fn reorder_session(random: &mut SplitMix64, history: &mut History) -> bool {
    let first = random.below(history.txns.len());
    let process = history.txns[first].process;
    let later = history.txns.iter().skip(first + 1).find(|txn| txn.process == process);
    let Some(second) = later.map(|txn| txn.id) else { return false };
    if [first, second].iter().any(|id| history.txns[*id].outcome != Outcome::Ok) {
        return false;
    }
    let ops = std::mem::take(&mut history.txns[first].ops);
    let ops = std::mem::replace(&mut history.txns[second].ops, ops);
    history.txns[first].ops = ops;
    let ts = history.txns[first].ts;
    history.txns[first].ts = history.txns[second].ts;
    history.txns[second].ts = ts;
    true
}

/// Marks a committed transaction as failed.
fn fail(random: &mut SplitMix64, history: &mut History) -> bool {
    let id = random.below(history.txns.len());
    let txn = &mut history.txns[id];
    if txn.outcome != Outcome::Ok || txn.session_seq.is_some() {
        return false;
    }
    txn.outcome = Outcome::Fail;
    txn.ts = None;
    txn.ops.iter_mut().for_each(|op| op.reply = None);
    true
}

/// Moves a transaction that does not wait for its session to another time.
fn shift(random: &mut SplitMix64, history: &mut History) -> bool {
    let id = random.below(history.txns.len());
    let end_us = history.txns.iter().filter_map(|txn| txn.complete_us).max().unwrap_or(1);
    let mut txns = history.txns.clone();
    let txn = &mut txns[id];
    if txn.outcome != Outcome::Ok || txn.session_seq.is_some() {
        return false;
    }
    txn.process = 1_000;
    txn.invoke_us = random.next() % end_us;
    txn.complete_us = Some(txn.invoke_us + random.next() % 30);
    *history = renumber(txns);
    true
}

/// Whether replies are right in timestamp order, and whether the order of each key, real time and
/// sessions have a common order.
fn simulate(history: &History) -> bool {
    let mut placed: Vec<&Txn> = history.txns.iter().filter(|txn| txn.ts.is_some()).collect();
    placed.sort_by_key(|txn| txn.ts);
    let mut model = Model::default();
    for op in placed.iter().flat_map(|txn| &txn.ops) {
        let answer = model.apply(&op.words);
        if op.reply.as_ref().is_some_and(|reply| !model::agree(&op.words, &answer, reply)) {
            return false;
        }
    }
    let conflict = |a: &Txn, b: &Txn| {
        a.ops.iter().any(|x| {
            b.ops.iter().any(|y| {
                let write = !model::is_read(&x.words) || !model::is_read(&y.words);
                let keys = model::keys_of(&y.words);
                write && model::keys_of(&x.words).iter().any(|key| keys.contains(key))
            })
        })
    };
    let len = placed.len();
    let mut before = vec![vec![false; len]; len];
    for (i, a) in placed.iter().enumerate() {
        for (j, b) in placed.iter().enumerate().filter(|(j, _)| *j != i) {
            let session = a.process == b.process
                && a.id < b.id
                && (a.outcome == Outcome::Ok || b.session_seq.is_some());
            before[i][j] = a.precedes(b) || session || (a.ts < b.ts && conflict(a, b));
        }
    }
    for middle in 0..len {
        let via = before[middle].clone();
        for row in before.iter_mut().filter(|row| row[middle]) {
            row.iter_mut().zip(&via).for_each(|(to, via)| *to |= via);
        }
    }
    (0..len).all(|i| !before[i][i])
}
