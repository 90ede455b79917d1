//! Barriers and their generations.

use super::{Act, History, Outcome, Token, What, report};
use crate::verdict::Verdict;
use std::collections::BTreeMap;

/// Reports clients that passed before enough had arrived, generations that are too large, and
/// numbers that do not grow.
pub(super) fn check(history: &History, verdict: &mut Verdict) {
    let mut barriers: BTreeMap<&str, Vec<&Act>> = BTreeMap::new();
    for act in &history.acts {
        if let What::Meet { barrier, .. } = &act.what {
            barriers.entry(barrier).or_default().push(act);
        }
    }
    for (barrier, acts) in barriers {
        let mut generations: BTreeMap<Token, Vec<&Act>> = BTreeMap::new();
        for act in &acts {
            if let Outcome::Granted(generation) = act.outcome {
                generations.entry(generation).or_default().push(act);
            }
        }
        verdict.count("generations", generations.len());
        let mut before: Option<(Token, u64)> = None;
        for (generation, those) in &generations {
            enough(barrier, *generation, those, &acts, verdict);
            let begun_us = those.iter().map(|act| act.asked_us).max().unwrap_or_default();
            let ended_us = those.iter().map(|act| act.ended_us).min().unwrap_or_default();
            // Tokens grow with time: the smaller one cannot have begun after the end of the larger
            // one.
            if let Some((earlier, begun_before_us)) = before
                && begun_before_us > ended_us
            {
                let text = format!(
                    "{generation} had passed {barrier} by {ended_us}, and a client of {earlier} \
                     arrived at {begun_before_us}"
                );
                report(verdict, "generation-falls", text);
            }
            before = Some((*generation, before.map_or(begun_us, |(_, us)| us.max(begun_us))));
        }
    }
}

/// Whether enough clients had arrived: those that were released in this generation, and those with
/// an unknown outcome.
fn enough(barrier: &str, generation: Token, those: &[&Act], all: &[&Act], verdict: &mut Verdict) {
    let What::Meet { parties, .. } = &those[0].what else { return };
    if those.len() > *parties {
        let text = format!("{} have passed {barrier} in {generation}", those.len());
        report(verdict, "too-many-met", text);
    }
    let first_us = those.iter().map(|act| act.ended_us).min().unwrap_or_default();
    let may_be = |act: &&&Act| match act.outcome {
        Outcome::Granted(of) => of == generation,
        Outcome::Unknown => true,
        _ => false,
    };
    let came = all.iter().filter(may_be).filter(|act| act.asked_us <= first_us).count();
    if came < *parties {
        let text = format!(
            "{} learned at {first_us} that {generation} passes {barrier}: {came} of {parties} can have \
             arrived by then",
            those[0].who
        );
        report(verdict, "gone-on-early", text);
    }
}
