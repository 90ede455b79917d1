//! Checkers of histories.
//!
//! A [`History`] contains the requests of clients and the answers that they received. The checkers
//! decide whether a strictly serializable store can have answered like that. They share no code
//! with the store: its semantics are written down a second time, as plainly as possible, in
//! [`model`].
//!
//! | checker | needs | finds |
//! |---|---|---|
//! | [`replay`] | commit timestamps of writes | any wrong reply, torn transactions and reads, broken real-time or session order |
//! | [`cycle`] | unique values in lists, registers, sets | Adya's anomalies, without believing any timestamp |
//! | [`linear`] | single commands on registers and counters | what is not linearizable, by search |
//! | [`synchrony`] | measurements of the probe | what its analyses should have said |
//! | [`conserve`] | a bank or bounded counters | broken invariants |
//!
//! The first two must agree on every history that both can judge: the cycle oracle reports only
//! real anomalies, so "replay valid, cycles invalid" is a bug in a checker.
//!
//! Histories are read from JSON lines ([`history`]) or from a form for people ([`dialogue`]).
//! The crate is pure: text in, verdict out.

pub mod conserve;
pub mod coordination;
pub mod cycle;
pub mod dialogue;
mod graph;
pub mod history;
pub mod linear;
pub mod locks;
pub mod model;
pub mod replay;
pub mod synchrony;
mod value;
mod verdict;

pub use history::{Bank, Event, EventKind, History, HistoryError, Op, Outcome, Txn, Word};
pub use value::Value;
pub use verdict::{ANOMALIES_MAX, Anomaly, Verdict};

/// The verdict of every checker that applies to the history.
pub fn check_all(history: &History) -> Vec<Verdict> {
    let bank = history.bank.as_ref().map(|bank| conserve::bank(history, bank));
    let verdicts = [
        replay::check(history),
        Some(cycle::check(history)),
        linear::check(history),
        conserve::bounds(history),
        bank,
    ];
    verdicts.into_iter().flatten().collect()
}

/// Reads a history: JSON lines if the first line that is neither empty nor a comment begins with a
/// brace, else a dialogue.
///
/// # Errors
/// The first line that cannot be read.
pub fn parse(text: &str) -> Result<History, HistoryError> {
    let says = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let first = text.lines().find(says).unwrap_or("{");
    if first.trim_start().starts_with('{') {
        History::from_lines(text.lines())
    } else {
        dialogue::parse(text)
    }
}

/// Output of `claret check HISTORY [--json]`, and whether the history is valid. The JSON form is
/// one document: `{"valid":bool,"transactions":n,"verdicts":[...]}`, or
/// `{"valid":false,"error":"..."}` if the history cannot be read.
pub fn check_main(history_text: &str, json: bool) -> (String, bool) {
    let history = match parse(history_text) {
        Ok(history) => history,
        Err(error) if json => {
            let document = serde_json::json!({"valid": false, "error": error.to_string()});
            return (format!("{document}\n"), false);
        }
        Err(error) => return (format!("the history cannot be read: {error}\n"), false),
    };
    let verdicts = check_all(&history);
    let valid = verdicts.iter().all(|verdict| verdict.valid);
    let transactions = history.txns.len();
    if json {
        let document = serde_json::json!({
            "valid": valid,
            "transactions": transactions,
            "verdicts": verdicts,
        });
        return (format!("{document}\n"), valid);
    }
    let mut text = String::new();
    verdicts.iter().for_each(|verdict| text.push_str(&verdict.to_text()));
    let judged = |name| verdicts.iter().find(|verdict| verdict.checker == name).map(|v| v.valid);
    if judged("replay") == Some(true) && judged("cycles") == Some(false) {
        text.push_str("replay and cycles disagree: one of these checkers has a bug\n");
    }
    let result = if valid { "valid" } else { "INVALID" };
    text.push_str(&format!("{transactions} transactions: {result}\n"));
    (text, valid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_prints_text_or_one_document() {
        let story = "p0 : set x 1 -> OK @1\np1 : get x -> 1 @2\n";
        let (text, valid) = check_main(story, false);
        assert!(valid && text.contains("replay: valid") && text.ends_with("valid\n"), "{text}");
        let jsonl = dialogue::parse(&story.replace("-> 1", "-> 2")).unwrap().to_jsonl();
        let (text, valid) = check_main(&jsonl, true);
        assert!(!valid);
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(document["transactions"], 2);
        assert_eq!(document["verdicts"][0]["checker"], "replay");
        assert_eq!(document["verdicts"][0]["anomalies"][0]["kind"], "wrong-reply");
        let (text, valid) = check_main("{", true);
        assert!(!valid && text.contains("line 1"), "{text}");
        assert!(!check_main("p0", false).1);
    }
}
