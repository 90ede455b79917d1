//! Replies that are known ahead, in random states: they are those that writes have.

use crate::random::Random;
use crate::record::{apply, decode, foretell, is_always_possible};
use crate::{ArgBuf, Blob, Ctx, Op, Record, Timestamp};

/// Names in a large record. Its type has far smaller limits for what it keeps in one piece.
const MANY: usize = 3000;

/// Names in a small one, which writes often meet again.
const FEW: usize = 7;

/// Writes carried out on a small record, and on a large one, which is copied for each.
const STEPS: usize = 3000;
const STEPS_LARGE: usize = 300;

/// Checks that what is known ahead of a write on a record is so.
///
/// # Panics
/// If it is not.
pub fn check(record: Option<&Record>, op: &Op, ctx: &Ctx) {
    let mut after = record.cloned();
    let reply = apply(&mut after, op, ctx);
    if let Some(foretold) = foretell(record, op, ctx) {
        assert!(op.is_write(), "{op:?} is a read");
        assert_eq!(foretold, reply, "{op:?} in {record:?}");
    }
    if is_always_possible(record, op) {
        assert!(op.is_write() && !reply.is_error(), "{op:?} answers {reply:?} in {record:?}");
    }
}

/// Checks operations in random states, from templates: `?` stands for a name or another word, `#` for an
/// integer and `%` for a digit. The replies of `known` must be known ahead in the large state that many of
/// `first` lead to; those of `others` need not be.
///
/// # Panics
/// If a law is broken, or a template makes no command.
pub fn check_walks(first: &str, known: &[&str], others: &[&str]) {
    let mut random = Random(first.len() as u64);
    let mut large = None;
    for number in 0..MANY {
        let op = filled(first, &mut random, |_| number).expect("a first command");
        apply(&mut large, &op, &Ctx::default());
    }
    for template in known.iter().chain(others) {
        let mut any = || filled(template, &mut random, |random| random.below(2 * MANY));
        let ops: Vec<Op> = (0..20).filter_map(|_| any()).collect();
        assert!(!ops.is_empty(), "{template:?} is refused");
        for op in ops.iter().filter(|_| known.contains(template)) {
            let reply = foretell(large.as_ref(), op, &Ctx::default());
            assert!(reply.is_some(), "the reply of {op:?} is not known");
        }
    }
    let templates: Vec<&str> = known.iter().chain(others).chain(&[first]).copied().collect();
    walk(None, &templates, (STEPS, FEW), &mut random);
    walk(large, &templates, (STEPS_LARGE, 2 * MANY), &mut random);
}

fn walk(
    mut slot: Option<Record>,
    templates: &[&str],
    (steps, names): (usize, usize),
    random: &mut Random,
) {
    let mut present = 0;
    for step in 0..steps as u64 {
        let template = templates[random.below(templates.len())];
        let Some(op) = filled(template, random, |random| random.below(names)) else { continue };
        let seed = random.below(usize::MAX) as u64;
        let ctx = Ctx { now_ms: 1000 + step, ts: Timestamp::from_micros(step), seed };
        check(slot.as_ref(), &op, &ctx);
        apply(&mut slot, &op, &ctx);
        present += usize::from(slot.is_some());
    }
    assert!(present > steps / 10, "the record was there after {present} of {steps} steps");
}

/// The operation of a template, if a word is not refused.
fn filled(
    template: &str,
    random: &mut Random,
    mut number: impl FnMut(&mut Random) -> usize,
) -> Option<Op> {
    let mut words = String::new();
    for c in template.chars() {
        match c {
            '?' => words += &name(number(random)),
            '#' => words += &(random.below(24) as i64 - 8).to_string(),
            '%' => words += &random.below(10).to_string(),
            c => words.push(c),
        }
    }
    decode(&ArgBuf::of(words.split(' ')).args()).ok().map(|(_, op): (Blob, Op)| op)
}

/// A name, which may also be a number, a decimal number or too long to lie in a record itself.
fn name(number: usize) -> String {
    match number % 4 {
        0 => number.to_string(),
        1 => format!("member:{number}"),
        2 => format!("{number}.5"),
        _ => format!("{number}:{}", "long".repeat(1 + number % 20)),
    }
}
