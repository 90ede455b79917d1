//! Grants of locks, their holders and times.

use super::{Act, History, Outcome, Token, What, report};
use crate::verdict::Verdict;
use std::collections::BTreeMap;

/// A grant that a client received, or a section, which holds nothing after its end.
struct Grant<'a> {
    token: Token,
    /// Last token of the block that begins with `token`.
    last: Token,
    act: &'a Act,
    shared: bool,
    /// Most holders that share it, this one included; 0 is any number.
    limit: usize,
    /// Time before which no other client may be granted the lock, in microseconds.
    until_us: u64,
}

/// Reports tokens that do not grow, and grants while another client must have held the lock.
pub(super) fn check(history: &History, verdict: &mut Verdict) {
    for (lock, grants) in granted(history) {
        verdict.count("grants", grants.len());
        let held = grants.iter().filter(|grant| grant.until_us > grant.act.ended_us).count();
        verdict.count("leases counted", held);
        let sections = grants.iter().filter(|grant| matches!(grant.act.what, What::Section { .. }));
        verdict.count("sections", sections.count());
        verdict.count("blocks", grants.iter().filter(|grant| grant.last > grant.token).count());
        for (place, one) in grants.iter().enumerate() {
            for other in &grants[place + 1..] {
                if other.token > one.last && may_be_old(history, lock, one) {
                    verdict.count("not compared: servers that knew too little", 1);
                } else if in_order(lock, one, other, verdict) {
                    apart(lock, one, other, verdict);
                }
            }
        }
        within_limits(history, lock, &grants, verdict);
        nameless_apart(history, lock, &grants, verdict);
    }
}

/// All grants by lock, in the order of their tokens.
fn granted(history: &History) -> BTreeMap<&str, Vec<Grant<'_>>> {
    let mut locks: BTreeMap<&str, Vec<Grant<'_>>> = BTreeMap::new();
    for act in &history.acts {
        if let What::Acquire { lock, shared, limit, .. } | What::Section { lock, shared, limit, .. } =
            &act.what
            && let Outcome::Granted(token) = act.outcome
        {
            let until_us = 0;
            let tokens = if let What::Acquire { tokens, .. } = act.what { tokens } else { 1 };
            let last = token.saturating_add(tokens.saturating_sub(1));
            let grant = Grant { token, last, act, shared: *shared, limit: *limit, until_us };
            locks.entry(lock).or_default().push(grant);
        }
    }
    for (lock, grants) in &mut locks {
        grants.sort_by_key(|grant| (grant.token, grant.act.asked_us));
        for place in 0..grants.len() {
            let (before, grant) = grants.split_at(place);
            let grant = &grant[0];
            // A grant follows the end of all earlier grants that exclude other holders.
            let apart = before.iter().filter(|one| !(one.shared && grant.shared));
            let apart = apart.filter(|one| !may_be_old(history, lock, one));
            let over_us = apart.map(|one| one.until_us).max().unwrap_or(0);
            let begins_us = over_us.max(grant.act.asked_us);
            let until_us = held_until_us(history, grant.act, grant.token, begins_us);
            grants[place].until_us = until_us;
        }
    }
    locks
}

/// Time until which a grant holds at least; its lease begins no earlier than `begins_us`, and again
/// with each renewal.
fn held_until_us(history: &History, grant: &Act, granted: Token, begins_us: u64) -> u64 {
    let What::Acquire { lock: own, lease_us, again, next, .. } = &grant.what else { return 0 };
    let least_us = lease_us.saturating_sub(history.clocks_us);
    let mut lease_end_us = if *again { 0 } else { begins_us + least_us };
    let mut given_back_us = u64::MAX;
    for act in &history.acts {
        let released = *next && matches!(act.what, What::Release { .. });
        if act.outcome == Outcome::Refused && !released {
            continue;
        }
        match &act.what {
            What::Renew { lock, token }
                if (lock, *token) == (own, granted) && act.outcome == Outcome::Done =>
            {
                lease_end_us = lease_end_us.max(act.asked_us + least_us);
            }
            What::Release { lock, token } if (lock, *token) == (own, granted) => {
                given_back_us = given_back_us.min(act.asked_us);
            }
            What::Break { lock } if lock == own && !act.precedes(grant) => {
                given_back_us = given_back_us.min(act.asked_us);
            }
            _ => {}
        }
    }
    lease_end_us.min(given_back_us)
}

/// Whether a server granted the lock that may not have known yet that it had lost it. If the lock
/// was broken, the server learns of it at the latest when its own lease ends, which is twice that
/// of its clients and a second. If a clock leapt, its lease may have ended early; but it grants the
/// lock only to clients to which it can promise a whole lease.
fn may_be_old(history: &History, lock: &str, grant: &Grant<'_>) -> bool {
    let What::Acquire { near: true, lease_us, .. } = grant.act.what else { return false };
    let unheard_us = 2 * lease_us + 1_000_000 + history.clocks_us;
    let broken = |act: &Act| {
        matches!(&act.what, What::Break { lock: of } if of == lock)
            && !grant.act.precedes(act)
            && grant.act.ended_us.saturating_sub(act.ended_us) <= unheard_us
    };
    history.clocks_us > lease_us || history.acts.iter().any(broken)
}

/// Whether the tokens of two grants are in the order of the grants, as far as that is known.
fn in_order(lock: &str, one: &Grant<'_>, other: &Grant<'_>, verdict: &mut Verdict) -> bool {
    if other.token <= one.last {
        let text = format!(
            "{lock} was granted to {} and to {} with the token {}",
            one.act.who, other.act.who, other.token
        );
        report(verdict, "token-twice", text);
    } else if other.act.precedes(one.act) {
        let text = format!(
            "{lock} was granted to {} with token {} by {}; {} asked for it at {} and got {}",
            other.act.who,
            other.token,
            other.act.ended_us,
            one.act.who,
            one.act.asked_us,
            one.token
        );
        report(verdict, "token-falls", text);
    } else {
        return true;
    }
    false
}

/// Checks sections without a known token: a section that was requested after a grant was known is
/// behind it.
fn nameless_apart(history: &History, lock: &str, grants: &[Grant<'_>], verdict: &mut Verdict) {
    for act in history.acts.iter().filter(|act| act.outcome == Outcome::Done) {
        let What::Section { lock: of, shared, .. } = &act.what else { continue };
        if of != lock {
            continue;
        }
        verdict.count("sections", 1);
        let token = Token::MAX;
        let (shared, limit) = (*shared, 0);
        let section = Grant { token, last: token, act, shared, limit, until_us: 0 };
        let known = grants.iter().filter(|grant| grant.act.precedes(act));
        for grant in known.filter(|grant| !may_be_old(history, lock, grant)) {
            apart(lock, grant, &section, verdict);
        }
    }
}

/// Checks limits: a holder that holds longer than a later grant held when that was granted, because
/// tokens grow.
fn within_limits(history: &History, lock: &str, grants: &[Grant<'_>], verdict: &mut Verdict) {
    for (place, one) in grants.iter().enumerate().filter(|(_, one)| one.limit > 0) {
        verdict.count("grants with a limit", 1);
        let holds = |held: &&Grant<'_>| held.until_us > one.act.ended_us;
        let there = grants[..place].iter().filter(holds);
        let there = there.filter(|held| !may_be_old(history, lock, held)).count();
        if there >= one.limit {
            let text = format!(
                "{lock} was granted to {} with token {} by {}, for {} at most, when {there} held it",
                one.act.who, one.token, one.act.ended_us, one.limit
            );
            report(verdict, "too-many-holders", text);
        }
    }
}

/// Checks that a grant follows the end of another one. It was granted later, because tokens grow.
fn apart(lock: &str, one: &Grant<'_>, other: &Grant<'_>, verdict: &mut Verdict) {
    if one.shared && other.shared || other.act.ended_us >= one.until_us {
        return;
    }
    let text = format!(
        "{lock} was granted to {} with token {}, asked for at {} and held until {} at least; {} had \
         token {} by {}",
        one.act.who,
        one.token,
        one.act.asked_us,
        one.until_us,
        other.act.who,
        other.token,
        other.act.ended_us
    );
    report(verdict, "two-holders", text);
}
