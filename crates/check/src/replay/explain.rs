//! Explanations of wrong replies: the error, and the states that the reply would fit.

use super::{Mismatch, Replay};
use crate::history::{History, Outcome, Word};
use crate::model::{self, Model};
use crate::value::{Value, show_word};
use crate::verdict::Anomaly;

pub(super) fn explain(replay: &Replay<'_>, history: &History, mismatch: &Mismatch) -> Anomaly {
    let txns = replay.txns;
    let reader = &txns[replay.order[mismatch.place]];
    let op = &reader.ops[mismatch.op];
    let reply = op.reply.as_ref().unwrap_or(&Value::Nil);
    let mut text = format!(
        "T{} answered {reply} to `{}`, but in commit order the answer is {}",
        reader.id,
        words(&op.words),
        mismatch.expected
    );
    let mut ids = vec![reader.id];
    let failed = writer_of(history, Outcome::Fail, &op.words, reply, &mismatch.expected);
    let kind = match (failed, fitting_place(replay, mismatch)) {
        (Some((writer, value)), _) => {
            text.push_str(&format!("; T{writer}, which wrote {}, failed", show_word(&value)));
            ids.push(writer);
            "aborted-read"
        }
        (None, Some((place, before))) if before => {
            let next = replay.order[place];
            text.push_str(&format!("; the answer fits the state before T{next}"));
            ids.push(next);
            "stale-reply"
        }
        (None, Some((place, _))) => {
            let last = replay.order[place];
            text.push_str(&format!("; the answer fits the state after T{last}"));
            ids.push(last);
            "early-reply"
        }
        (None, None) => {
            let keys = model::keys_of(&op.words);
            let wrote = |id: &&usize| {
                txns[**id].ops.iter().any(|op| {
                    !model::is_read(&op.words)
                        && model::keys_of(&op.words).iter().any(|key| keys.contains(key))
                })
            };
            if let Some(writer) = replay.order[..mismatch.place].iter().rev().find(wrote) {
                text.push_str(&format!("; the last change before it is by T{writer}"));
                ids.push(*writer);
            }
            "wrong-reply"
        }
    };
    ids.iter().for_each(|id| text.push_str(&format!("\n{}", txns[*id])));
    Anomaly::new(kind, text, ids)
}

fn words(words: &[Word]) -> String {
    words.iter().map(|word| show_word(word)).collect::<Vec<_>>().join(" ")
}

/// A transaction of `outcome` that wrote to the same key a value that the reply contains and the
/// expected one does not.
pub(super) fn writer_of(
    history: &History,
    outcome: Outcome,
    command: &[Word],
    reply: &Value,
    expected: &Value,
) -> Option<(usize, Word)> {
    let keys = model::keys_of(command);
    let expected: Vec<Word> = expected.flat().iter().map(Value::canonical).collect();
    let extra: Vec<Word> =
        reply.flat().iter().map(Value::canonical).filter(|v| !expected.contains(v)).collect();
    for txn in history.txns.iter().filter(|txn| txn.outcome == outcome) {
        for op in txn.ops.iter().filter(|op| !model::is_read(&op.words)) {
            let named = model::keys_of(&op.words);
            let Some(values) = op.words.get(2..) else { continue };
            let value = values.iter().find(|value| extra.contains(value));
            if let (true, Some(value)) = (named.iter().any(|key| keys.contains(key)), value) {
                return Some((txn.id, value.clone()));
            }
        }
    }
    None
}

/// The nearest place in the order at which the reply would be right: before the transaction at that
/// place (earlier than its own, `true`) or after it (`false`).
fn fitting_place(replay: &Replay<'_>, mismatch: &Mismatch) -> Option<(usize, bool)> {
    let reader = &replay.txns[replay.order[mismatch.place]];
    let command = &reader.ops[mismatch.op];
    let reply = command.reply.as_ref()?;
    if !model::is_read(&command.words) {
        return None;
    }
    let keys = model::keys_of(&command.words);
    let mut model = Model::default();
    let mut stale = None;
    let fits = |model: &mut Model| {
        let answer = model.try_apply(&command.words);
        answer.is_some_and(|answer| model::agree(&command.words, &answer, reply))
    };
    for (place, &id) in replay.order.iter().enumerate() {
        let changes = replay.txns[id].ops.iter().filter(|op| {
            !model::is_read(&op.words)
                && model::keys_of(&op.words).iter().any(|key| keys.contains(key))
        });
        let changes: Vec<_> = changes.collect();
        if changes.is_empty() || place == mismatch.place {
            continue;
        }
        if place < mismatch.place && fits(&mut model) {
            stale = Some((place, true));
        }
        for op in changes {
            model.try_follow(&op.words, op.reply.as_ref());
        }
        if place > mismatch.place && stale.is_none() && fits(&mut model) {
            return Some((place, false));
        }
    }
    stale
}
