//! Leaders of elections and their values.

use super::{Act, History, Led, Outcome, Token, What, report};
use crate::verdict::Verdict;
use std::collections::BTreeMap;

/// A value that a client has proclaimed, or would have proclaimed if elected.
struct Said<'a> {
    act: &'a Act,
    /// Token of the proclamation; `None` if it is unknown.
    token: Option<Token>,
    version: Option<Token>,
}

/// Facts about the leaders of one lock.
#[derive(Default)]
struct Election<'a> {
    said: BTreeMap<&'a str, Said<'a>>,
    told: Vec<(&'a Act, Token, Option<&'a Led>)>,
    proclaimed: Vec<(&'a Act, Token)>,
    /// Times at which a token, or a version, was known.
    tokens: Vec<(u64, Token)>,
    versions: Vec<(u64, Token)>,
}

/// Reports leaders that were not elected or have not proclaimed the reported value, and reports
/// that are older than known versions.
pub(super) fn check(history: &History, verdict: &mut Verdict) {
    for (lock, election) in &mut elections(history) {
        verdict.count("leaders told", election.told.iter().filter(|told| told.2.is_some()).count());
        verdict.count("proclamations", election.proclaimed.len());
        for known in [&mut election.tokens, &mut election.versions] {
            known.sort_unstable();
            let mut largest = 0;
            for (_, number) in known {
                largest = largest.max(*number);
                *number = largest;
            }
        }
        election.check(lock, verdict);
    }
}

fn elections(history: &History) -> BTreeMap<&str, Election<'_>> {
    let mut elections: BTreeMap<&str, Election<'_>> = BTreeMap::new();
    for act in &history.acts {
        let granted = match act.outcome {
            Outcome::Granted(number) => Some(number),
            _ => None,
        };
        match &act.what {
            What::Acquire { lock, value, .. } => {
                let election = elections.entry(lock).or_default();
                let said = Said { act, token: granted, version: granted };
                election.said.extend(value.as_deref().map(|value| (value, said)));
                election.tokens.extend(granted.map(|token| (act.ended_us, token)));
                election.versions.extend(granted.map(|token| (act.ended_us, token)));
            }
            What::Section { lock, .. } => {
                let election = elections.entry(lock).or_default();
                election.versions.extend(granted.map(|token| (act.ended_us, token)));
                election.tokens.extend(granted.map(|token| (act.ended_us, token)));
            }
            What::Proclaim { lock, token, value } => {
                let election = elections.entry(lock).or_default();
                election.said.insert(value, Said { act, token: Some(*token), version: granted });
                election.proclaimed.extend(granted.map(|_| (act, *token)));
                election.versions.extend(granted.map(|version| (act.ended_us, version)));
            }
            What::Observe { lock, seen } => {
                let Outcome::Led(led) = &act.outcome else { continue };
                let election = elections.entry(lock).or_default();
                election.told.push((act, *seen, led.as_ref()));
                if let Some(led) = led {
                    election.versions.push((act.ended_us, led.version));
                    election.tokens.push((act.ended_us, led.token));
                }
            }
            _ => {}
        }
    }
    elections
}

/// The largest number that was known before a time.
fn known(numbers: &[(u64, Token)], before_us: u64) -> Token {
    let count = numbers.partition_point(|(at_us, _)| *at_us < before_us);
    numbers[..count].last().map_or(0, |(_, number)| *number)
}

impl Election<'_> {
    fn check(&self, lock: &str, verdict: &mut Verdict) {
        for (act, seen, led) in &self.told {
            let version = led.map_or(0, |led| led.version);
            if version == *seen {
                let text = format!("{} has seen {seen} of {lock}, and received it again", act.who);
                report(verdict, "leader-told-again", text);
            }
            let Some(led) = led else { continue };
            let before = known(&self.versions, act.asked_us);
            if led.version < before {
                let text = format!(
                    "{} asked at {} and learned that {led:?} leads by {lock}; {before} was known before",
                    act.who, act.asked_us
                );
                report(verdict, "leader-goes-back", text);
            }
            if let Some(why) = self.unfounded(act, led) {
                let text = format!("{} learned that {led:?} leads by {lock}, {why}", act.who);
                report(verdict, "leader-from-nowhere", text);
            }
        }
        for (act, token) in &self.proclaimed {
            let newest = known(&self.tokens, act.asked_us);
            if newest > *token {
                let text = format!(
                    "{} has proclaimed a value of {lock} under {token}, when {newest} was known",
                    act.who
                );
                report(verdict, "late-proclamation", text);
            }
        }
    }

    /// Reason why this report is impossible.
    fn unfounded(&self, told: &Act, led: &Led) -> Option<&'static str> {
        let Some(said) = self.said.get(led.value.as_str()) else {
            return Some("whose value was never proclaimed");
        };
        let elected = matches!(said.act.what, What::Acquire { .. });
        if said.act.failed() {
            Some("which was refused")
        } else if said.token.is_some_and(|token| token != led.token) {
            Some("which another leader has proclaimed")
        } else if said.version.is_some_and(|version| version != led.version) {
            Some("and it has another version")
        } else if elected != (led.version == led.token) || led.version < led.token {
            Some("and its version is not one of this grant")
        } else if told.precedes(said.act) {
            Some("before it was proclaimed")
        } else {
            None
        }
    }
}
