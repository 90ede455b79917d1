//! Which operations of a type commute: found by asking the rules of the parts about sample calls, in the
//! states that sample calls lead to.

use super::definition::{Definition, Form, OperationSpec};
use super::{Call, Op, Value};
use crate::record::{self, Record};
use crate::{Access, Blob, Ctx, Op as AnyOp, Reply};
use std::sync::Arc;

/// Most states in which a pair is looked at.
const STATES_MAX: usize = 24;

/// Verdict on two operations whose replies are seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Operations that commute with all sample arguments in all states that were looked at.
    Always,
    /// Operations that commute if their arguments differ.
    OtherArguments,
    /// Operations that commute if their arguments are the same.
    SameArguments,
    /// Operations that commute with some values.
    ByState,
    /// Operations that never commute.
    Never,
}

/// Two operations, and whether they commute.
#[derive(Clone, Debug)]
pub struct Pair {
    /// Names of the operations.
    pub names: (String, String),
    /// Whether they commute.
    pub verdict: Verdict,
    /// Part and commands that do not commute, if there are any.
    pub because: Option<String>,
}

/// Calls with a first choice of arguments, with a second one, and with the first one of the first choice.
fn samples(definition: &Arc<Definition>, operation: &OperationSpec) -> [Option<Op>; 3] {
    [0, 1, 2].map(|choice: usize| {
        let argument = |(place, form): (usize, Form)| {
            let second = usize::from(choice == 1 || (choice == 2 && place > 0));
            match form {
                Form::Text => ["a", "b"][second],
                Form::Int | Form::Number => ["1", "2"][second],
            }
        };
        let forms = operation.parameters.iter().map(|of| of.form).enumerate();
        let arguments = forms.map(|form| Blob::from(argument(form)));
        let call = Call::new(definition.clone(), operation.name.as_bytes(), arguments.collect());
        call.ok().map(|call| Op(Arc::new(call)))
    })
}

/// States that samples lead to.
fn states(samples: &[[Option<Op>; 3]]) -> Vec<Option<Record>> {
    let writes: Vec<&Op> =
        samples.iter().flatten().flatten().filter(|op| op.0.spec().writes).collect();
    let mut states = vec![None];
    let mut at = 0;
    while at < states.len() && states.len() < STATES_MAX {
        for op in &writes {
            let mut next: Option<Record> = states[at].clone();
            record::apply(&mut next, &AnyOp::Composed((*op).clone()), &Ctx::default());
            if states.len() < STATES_MAX && !states.contains(&next) {
                states.push(next);
            }
        }
        at += 1;
    }
    states
}

fn value_of(state: Option<&Record>) -> Option<&Value> {
    match state.map(|record| &record.value) {
        Some(crate::Value::Composed(value)) => Some(value),
        _ => None,
    }
}

/// The commands of two calls that do not commute in a state.
fn conflict(state: Option<&Record>, a: &Op, b: &Op) -> Option<String> {
    let new = Value::default();
    let value = value_of(state).unwrap_or(&new);
    let (i, j) = value.first_conflict((&a.0, true), (&b.0, true))?;
    let step = |op: &Op, step: usize| op.0.spec().steps[step].shown();
    let part = &a.0.definition.parts[a.0.steps[i].part].name;
    Some(format!("{part}: {} and {}", step(a, i), step(b, j)))
}

/// Verdicts on all pairs of operations of a type.
pub fn pairs(definition: &Arc<Definition>) -> Vec<Pair> {
    let samples: Vec<_> =
        definition.operations.iter().map(|one| samples(definition, one)).collect();
    let states = states(&samples);
    let mut pairs = Vec::new();
    for (i, a) in samples.iter().enumerate() {
        for (j, b) in samples.iter().enumerate().skip(i) {
            let commute = |x: &Option<Op>, y: &Option<Op>, state: &Option<Record>| {
                let (Some(x), Some(y)) = (x, y) else { return true };
                let [x, y] = [x, y].map(|op| AnyOp::Composed(op.clone()));
                let access = |op| Access { op, observed: true };
                record::commutes(state.as_ref(), access(&x), access(&y))
            };
            let same = |state: &Option<Record>| commute(&a[0], &b[0], state);
            let other = |state: &Option<Record>| {
                commute(&a[0], &b[1], state) && commute(&a[1], &b[0], state)
            };
            let mixed = |state: &Option<Record>| {
                commute(&a[0], &b[2], state) && commute(&a[2], &b[0], state)
            };
            let verdict = match () {
                () if states.iter().all(|state| same(state) && other(state) && mixed(state)) => {
                    Verdict::Always
                }
                () if states.iter().all(other) => Verdict::OtherArguments,
                () if states.iter().all(same) => Verdict::SameArguments,
                () if states.iter().any(|state| same(state) || other(state)) => Verdict::ByState,
                () => Verdict::Never,
            };
            let because = states.iter().find_map(|state| {
                let mut choices = [
                    (&a[0], &b[1]),
                    (&a[1], &b[0]),
                    (&a[0], &b[2]),
                    (&a[2], &b[0]),
                    (&a[0], &b[0]),
                ];
                if verdict == Verdict::OtherArguments {
                    choices.reverse();
                }

                choices.iter().find_map(|(x, y)| conflict(state.as_ref(), x.as_ref()?, y.as_ref()?))
            });
            let because = because.filter(|_| verdict != Verdict::Always);
            let name = |at: usize| definition.operations[at].name.clone();
            pairs.push(Pair { names: (name(i), name(j)), verdict, because });
        }
    }
    pairs
}

/// The reply of `TYPE.LAWS`: for each pair of operations their names, `always`, `other-arguments`,
/// `same-arguments`, `by-state` or `never`, and the commands that do not commute.
pub fn derived(definition: &Arc<Definition>) -> Reply {
    let rows = pairs(definition).into_iter().map(|pair| {
        let verdict = match pair.verdict {
            Verdict::Always => "always",
            Verdict::OtherArguments => "other-arguments",
            Verdict::SameArguments => "same-arguments",
            Verdict::ByState => "by-state",
            Verdict::Never => "never",
        };
        Reply::Array(vec![
            Reply::bulk(pair.names.0),
            Reply::bulk(pair.names.1),
            Reply::bulk(verdict),
            Reply::bulk(pair.because.unwrap_or_default()),
        ])
    });
    Reply::Array(rows.collect())
}
