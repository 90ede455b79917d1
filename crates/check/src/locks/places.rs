//! Writes and their tokens.

use super::{Act, History, Outcome, Place, Token, What, report};
use crate::verdict::Verdict;
use std::collections::{BTreeMap, BTreeSet};

/// A write with its token and destination.
#[derive(Clone, Copy)]
struct Write<'a> {
    act: &'a Act,
    /// `None` for a section whose token is not known.
    token: Option<Token>,
    value: &'a str,
    register: bool,
    journal: bool,
}

/// Facts about one place.
#[derive(Default)]
struct Guarded<'a> {
    lock: &'a str,
    writes: BTreeMap<&'a str, Write<'a>>,
    /// Reads of the journal and of the register.
    journals: Vec<(&'a Act, &'a [String])>,
    registers: Vec<(&'a Act, Option<&'a str>)>,
    /// Requests with a token that were accepted.
    admitted: Vec<(&'a Act, Token)>,
}

/// Reports writes that were accepted under an old token, and refusals without a reason.
pub(super) fn check(history: &History, verdict: &mut Verdict) {
    for (place, guarded) in &guarded(history) {
        verdict.count("writes", guarded.writes.len());
        let unknown = |write: &&Write<'_>| write.act.outcome == Outcome::Unknown;
        verdict.count("unknown writes", guarded.writes.values().filter(unknown).count());
        let looks = guarded.journals.len() + guarded.registers.len();
        verdict.count("reads", looks);
        let last = history.last.as_ref().map(|last| last.get(*place).cloned().unwrap_or_default());
        let seen = guarded.seen(place, last.as_ref(), verdict);
        guarded.real_time(place, &seen, verdict);
        guarded.check_journal(place, last.as_ref(), verdict);
        guarded.check_register(place, last.as_ref(), verdict);
    }
    founded(history, verdict);
}

fn guarded(history: &History) -> BTreeMap<&str, Guarded<'_>> {
    let mut places: BTreeMap<&str, Guarded<'_>> = BTreeMap::new();
    for act in &history.acts {
        match &act.what {
            What::Write { place, lock, token, value, register, journal } => {
                let guarded = places.entry(place).or_default();
                guarded.lock = lock;
                guarded.add(act, Some(*token), value, (*register, *journal));
            }
            What::Section { place, lock, value, register, journal, .. } => {
                let guarded = places.entry(place).or_default();
                guarded.lock = lock;
                guarded.add(act, token_of(act), value, (*register, *journal));
            }
            What::Read { place, fence, journal } => {
                let Outcome::Read(values) = &act.outcome else { continue };
                let guarded = places.entry(place).or_default();
                match journal {
                    true => guarded.journals.push((act, values)),
                    false => guarded.registers.push((act, values.first().map(String::as_str))),
                }
                guarded.admitted.extend(fence.as_ref().map(|(_, token)| (act, *token)));
            }
            _ => {}
        }
    }
    places
}

/// Token of a section, if it is known.
fn token_of(section: &Act) -> Option<Token> {
    match section.outcome {
        Outcome::Granted(token) => Some(token),
        _ => None,
    }
}

impl<'a> Guarded<'a> {
    fn add(
        &mut self,
        act: &'a Act,
        token: Option<Token>,
        value: &'a str,
        (register, journal): (bool, bool),
    ) {
        self.writes.insert(value, Write { act, token, value, register, journal });
        self.admitted.extend(token.filter(|_| act.done()).map(|token| (act, token)));
    }

    /// Values that were read, all of which must have been written and not refused.
    fn seen(
        &self,
        place: &str,
        last: Option<&'a Place>,
        verdict: &mut Verdict,
    ) -> BTreeSet<&'a str> {
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        seen.extend(self.journals.iter().flat_map(|(_, values)| *values).map(String::as_str));
        seen.extend(self.registers.iter().filter_map(|(_, value)| *value));
        if let Some(last) = last {
            seen.extend(last.journal.iter().chain(&last.register).map(String::as_str));
        }
        for value in &seen {
            let failed = match self.writes.get(value) {
                None => "was never written",
                Some(write) if write.act.failed() => "was refused",
                Some(_) => continue,
            };
            report(verdict, "seen-from-nowhere", format!("{value} in {place} {failed}"));
        }
        seen
    }

    /// Reports accepted requests that were sent after the answer to a request under a larger token.
    fn real_time(&self, place: &str, seen: &BTreeSet<&str>, verdict: &mut Verdict) {
        let taken = |write: &&Write<'_>| write.act.done() || seen.contains(write.value);
        let writes = self.writes.values().filter(taken);
        let writes = writes.filter_map(|write| Some((write.act, write.token?)));
        let reads = self.admitted.iter().copied();
        let reads = reads.filter(|(act, _)| matches!(act.what, What::Read { .. }));
        for (act, token) in writes.chain(reads) {
            let newer =
                self.admitted.iter().find(|(other, larger)| *larger > token && other.precedes(act));
            let Some((other, larger)) = newer else { continue };
            let text = format!(
                "{} was let through to {place} under token {larger} of {} by {}; what {} asked at {} \
                 under token {token} was let through as well",
                other.who, self.lock, other.ended_us, act.who, act.asked_us
            );
            report(verdict, "old-token", text);
        }
    }

    /// Checks that the journal is in the order in which writes took effect.
    fn check_journal(&self, place: &str, last: Option<&Place>, verdict: &mut Verdict) {
        let longest = self.journals.iter().map(|(_, values)| *values).max_by_key(|v| v.len());
        let whole = last.map(|last| &last.journal[..]).or(longest).unwrap_or_default();
        let mut positions = BTreeMap::new();
        for (position, value) in whole.iter().enumerate() {
            if positions.insert(value.as_str(), position).is_some() {
                report(verdict, "written-twice", format!("{value} is in {place} twice"));
            }
        }
        let known = whole.iter().filter_map(|value| self.writes.get(value.as_str()));
        let known: Vec<_> = known.filter_map(|write| Some((write.value, write.token?))).collect();
        for pair in known.windows(2) {
            if let [(before, larger), (behind, token)] = pair
                && larger > token
            {
                let text = format!(
                    "{behind} is behind {before} in {place}: the tokens are {token} and {larger}"
                );
                report(verdict, "token-goes-back", text);
            }
        }
        let ends = last.map(|_| (u64::MAX, whole));
        let looks = self.journals.iter().map(|(act, values)| (act.ended_us, *values));
        for (_, values) in looks.chain(ends) {
            if !whole.starts_with(values) {
                let text = format!("{place} was seen as {values:?}, and is {whole:?} in the end");
                report(verdict, "journal-changed", text);
            }
        }
        let written = self.writes.values().filter(|write| write.journal);
        for write in written.filter(|write| write.act.done()) {
            self.check_seen(place, write, last, verdict);
        }
        let mut before: Option<Write<'_>> = None;
        for write in whole.iter().filter_map(|value| self.writes.get(value.as_str())) {
            // Of the writes so far, the one that was requested last comes before it.
            if let Some(before) = before.filter(|before| write.act.precedes(before.act)) {
                let text = format!(
                    "{} was written to {place} by {}; {} was asked at {} and is in front of it",
                    write.value, write.act.ended_us, before.value, before.act.asked_us
                );
                report(verdict, "out-of-order", text);
            }
            before = before.filter(|b| b.act.asked_us > write.act.asked_us).or(Some(*write));
        }
    }

    /// Checks that a write is visible to every later read, and to no earlier one.
    fn check_seen(
        &self,
        place: &str,
        write: &Write<'_>,
        last: Option<&Place>,
        verdict: &mut Verdict,
    ) {
        let has = |values: &[String]| values.iter().any(|value| value == write.value);
        let lost = |(act, values): &&(&Act, &[String])| write.act.precedes(act) && !has(values);
        if let Some((act, _)) = self.journals.iter().find(lost) {
            let text = format!(
                "{} was written to {place} by {}, and {}, reading at {}, did not see it",
                write.value, write.act.ended_us, act.who, act.asked_us
            );
            report(verdict, "lost-write", text);
        }
        if last.is_some_and(|last| !has(&last.journal)) {
            let text =
                format!("{} was written to {place} and is not there at the end", write.value);
            report(verdict, "lost-write", text);
        }
        let early = |(act, values): &&(&Act, &[String])| act.precedes(write.act) && has(values);
        if let Some((act, _)) = self.journals.iter().find(early) {
            let text =
                format!("{} saw {} in {place} before it was requested", act.who, write.value);
            report(verdict, "seen-early", text);
        }
    }

    /// Checks that the tokens of a register do not decrease from a write or read to a later read.
    fn check_register(&self, place: &str, last: Option<&Place>, verdict: &mut Verdict) {
        // 0 is smaller than all tokens; the token of a section may be unknown.
        let token = |value: Option<&str>| {
            value.and_then(|value| self.writes.get(value)).map_or(Some(0), |write| write.token)
        };
        let written = self.writes.values().filter(|write| write.register && write.act.done());
        let mut known: Vec<(u64, Token)> =
            written.filter_map(|write| Some((write.act.ended_us, write.token?))).collect();
        let looked = self.registers.iter();
        known.extend(looked.filter_map(|(act, value)| Some((act.ended_us, token(*value)?))));
        known.sort_unstable();
        let ends = last.map(|last| (u64::MAX, last.register.as_deref()));
        let mut looks: Vec<_> =
            self.registers.iter().map(|(act, value)| (act.asked_us, *value)).chain(ends).collect();
        looks.sort_unstable();
        let (mut known, mut largest) = (known.into_iter().peekable(), 0);
        for (asked_us, value) in looks {
            while let Some((_, seen)) = known.next_if(|(ended_us, _)| *ended_us < asked_us) {
                largest = largest.max(seen);
            }
            if let Some(token) = token(value).filter(|token| *token < largest) {
                let text = format!(
                    "{place} was {value:?} in a read at {asked_us}, which is of token \
                     {token}; token {largest} was known by then"
                );
                report(verdict, "register-goes-back", text);
            }
        }
    }
}

/// Checks refusals because of a larger token: a client must have presented one.
fn founded(history: &History, verdict: &mut Verdict) {
    let shown = |act: &'_ Act| match &act.what {
        What::Write { lock, token, .. } => Some((lock.clone(), *token)),
        What::Read { fence, .. } => fence.clone(),
        // A token that no client received may have any value.
        What::Section { lock, .. } if !act.failed() => {
            Some((lock.clone(), token_of(act).unwrap_or(Token::MAX)))
        }
        _ => None,
    };
    let all: Vec<_> = history.acts.iter().filter_map(|act| Some((act, shown(act)?))).collect();
    let fenced = |act: &Act| act.outcome == Outcome::Fenced;
    verdict.count("fenced", history.acts.iter().filter(|act| fenced(act)).count());
    for (act, (lock, token)) in all.iter().filter(|(act, _)| fenced(act)) {
        let larger = |(other, (of, shown)): &(&Act, (String, Token))| {
            of == lock && shown > token && other.asked_us <= act.ended_us
        };
        if !all.iter().any(larger) {
            let text = format!(
                "{} was refused at {} under token {token} of {lock}, and no client had \
                 presented a larger one",
                act.who, act.ended_us
            );
            report(verdict, "fenced-for-nothing", text);
        }
    }
}
