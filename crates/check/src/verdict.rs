//! Verdicts of the checkers.

use serde::Serialize;
use std::collections::BTreeMap;

/// Most anomalies that one checker lists; the rest are only counted.
pub const ANOMALIES_MAX: usize = 16;

/// The answer of one checker about one history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Name of the checker.
    pub checker: &'static str,
    /// Whether the checker found nothing wrong.
    pub valid: bool,
    /// Anomalies, at most [`ANOMALIES_MAX`] entries.
    pub anomalies: Vec<Anomaly>,
    /// Numbers of examined items, by kind; also `anomalies` if some are not listed.
    pub counts: BTreeMap<&'static str, u64>,
}

/// An observation that is impossible in a strictly serializable history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Anomaly {
    /// Name, where there is one as in Adya's thesis (1999) and the Elle paper (2020).
    pub kind: String,
    /// Explanation for people; may have several lines.
    pub explanation: String,
    /// The transactions involved, by their number in the history.
    pub txns: Vec<usize>,
}

impl Anomaly {
    /// An anomaly of `kind` among `txns`.
    pub fn new(kind: impl Into<String>, explanation: impl Into<String>, txns: Vec<usize>) -> Self {
        Self { kind: kind.into(), explanation: explanation.into(), txns }
    }
}

impl Verdict {
    /// A verdict without anomalies.
    pub fn new(checker: &'static str) -> Self {
        Self { checker, valid: true, anomalies: Vec::new(), counts: BTreeMap::new() }
    }

    /// Adds an anomaly: the verdict is "invalid" from now on.
    pub fn report(&mut self, anomaly: Anomaly) {
        self.valid = false;
        if self.anomalies.len() < ANOMALIES_MAX {
            self.anomalies.push(anomaly);
        } else {
            let listed = ANOMALIES_MAX as u64;
            *self.counts.entry("anomalies").or_insert(listed) += 1;
        }
    }

    /// Adds `number` to the count called `name`; a count of zero is left out.
    pub fn count(&mut self, name: &'static str, number: usize) {
        if number > 0 {
            *self.counts.entry(name).or_default() += number as u64;
        }
    }

    /// Whether an anomaly of `kind` is listed.
    pub fn has(&self, kind: &str) -> bool {
        self.anomalies.iter().any(|anomaly| anomaly.kind == kind)
    }

    /// The verdict for people, several lines.
    pub fn to_text(&self) -> String {
        let counts: Vec<String> =
            self.counts.iter().map(|(name, number)| format!("{number} {name}")).collect();
        let mut text = format!(
            "{}: {} ({})\n",
            self.checker,
            if self.valid { "valid" } else { "INVALID" },
            counts.join(", ")
        );
        for anomaly in &self.anomalies {
            text.push_str(&format!("  {}\n", anomaly.kind));
            for line in anomaly.explanation.lines() {
                text.push_str(&format!("    {line}\n"));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_anomalies_is_counted_not_kept() {
        let mut verdict = Verdict::new("test");
        for i in 0..ANOMALIES_MAX + 3 {
            verdict.report(Anomaly::new("G0", "twice", vec![i]));
        }
        assert!(!verdict.valid && verdict.has("G0"));
        assert_eq!(verdict.anomalies.len(), ANOMALIES_MAX);
        assert_eq!(verdict.counts["anomalies"], ANOMALIES_MAX as u64 + 3);
        assert!(verdict.to_text().contains("INVALID"));
    }
}
