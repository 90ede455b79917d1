//! Who has gone on from a barrier, with whom.

use super::{Act, History, Outcome, Token, What, report};
use crate::verdict::Verdict;
use std::collections::BTreeMap;

/// Reports those who went on before enough had come, too many together, and numbers that do not grow.
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
            // Tokens grow with time: the smaller one cannot have begun when the larger one was over.
            if let Some((earlier, begun_before_us)) = before
                && begun_before_us > ended_us
            {
                let text = format!(
                    "{generation} had gone on from {barrier} by {ended_us}, and of {earlier} somebody \
                     came at {begun_before_us}"
                );
                report(verdict, "generation-falls", text);
            }
            before = Some((*generation, before.map_or(begun_us, |(_, us)| us.max(begun_us))));
        }
    }
}

/// Whether as many had come as went on: those who were told so, and those of whom nobody knows.
fn enough(barrier: &str, generation: Token, those: &[&Act], all: &[&Act], verdict: &mut Verdict) {
    let What::Meet { parties, .. } = &those[0].what else { return };
    if those.len() > *parties {
        let text = format!("{} have gone on from {barrier} in {generation}", those.len());
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
            "{} was told at {first_us} that {generation} goes on from {barrier}: {came} of {parties} can \
             have come by then",
            those[0].who
        );
        report(verdict, "gone-on-early", text);
    }
}
