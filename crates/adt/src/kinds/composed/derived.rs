//! Which operations of a type commute: found by asking the rules of the parts about sample calls, in the
//! states that sample calls lead to.

use super::definition::{Definition, Form, OperationSpec};
use super::{Call, Op, Value};
use crate::record::{self, Record};
use crate::{Blob, Ctx, Op as AnyOp, Reply};
use std::sync::Arc;

/// Most states in which a pair is looked at.
const STATES_MAX: usize = 24;

/// Calls of an operation: the first two have different arguments, the third one shares its first argument
/// with the first call and the others with the second.
type Samples = [Option<Op>; 3];

/// Choices of calls of two operations: with the same arguments, with others, and with some of each.
const SAME: [(usize, usize); 1] = [(0, 0)];
const OTHER: [(usize, usize); 2] = [(0, 1), (1, 0)];
const MIXED: [(usize, usize); 2] = [(0, 2), (2, 0)];

fn samples(definition: &Arc<Definition>, operation: &OperationSpec) -> Samples {
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
fn states(samples: &[Samples]) -> Vec<Option<Record>> {
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

/// Part and commands of two calls, whose replies are seen, that do not commute in a state.
fn conflict(state: Option<&Record>, a: &Op, b: &Op) -> Option<String> {
    let new = Value::default();
    let value = match state.map(|record| &record.value) {
        Some(crate::Value::Composed(value)) => value,
        _ => &new,
    };
    let (i, j) = value.first_conflict((&a.0, true), (&b.0, true))?;
    let command = |op: &Op, step: usize| op.0.spec().steps[step].shown();
    let part = &a.0.definition.parts[a.0.steps[i].part].name;
    Some(format!("{part}: {} and {}", command(a, i), command(b, j)))
}

/// Verdict on two operations, and the commands that do not commute, if there are any.
fn verdict(a: &Samples, b: &Samples, states: &[Option<Record>]) -> (&'static str, String) {
    let conflicts = |choices: &[(usize, usize)], state: &Option<Record>| {
        let pairs = choices.iter().filter_map(|(i, j)| a[*i].as_ref().zip(b[*j].as_ref()));
        pairs.into_iter().find_map(|(a, b)| conflict(state.as_ref(), a, b))
    };
    let find = |choices| states.iter().find_map(|state| conflicts(choices, state));
    let Some(same) = find(&SAME) else {
        return match (find(&OTHER), find(&MIXED)) {
            (Some(because), _) => ("same-arguments", because),
            (None, Some(because)) => ("other-arguments", because),
            (None, None) => ("always", String::new()),
        };
    };
    let Some(other) = find(&OTHER) else { return ("other-arguments", same) };
    let commute = |state| conflicts(&SAME, state).is_none() || conflicts(&OTHER, state).is_none();
    (if states.iter().any(commute) { "by-state" } else { "never" }, other)
}

/// The reply of `TYPE.LAWS`: for each pair of operations their names, `always`, `other-arguments`,
/// `same-arguments`, `by-state` or `never`, and the commands that do not commute. `by-commands` stands for
/// pairs with a program, whose commands are known when it runs.
pub fn derived(definition: &Arc<Definition>) -> Reply {
    let operations = &definition.operations;
    let samples: Vec<Samples> = operations.iter().map(|one| samples(definition, one)).collect();
    let states = states(&samples);
    let pairs = (0..samples.len()).flat_map(|i| (i..samples.len()).map(move |j| (i, j)));
    let rows = pairs.map(|(i, j)| {
        let is_program = |place: usize| operations[place].program.is_some();
        let (verdict, because) = match is_program(i) || is_program(j) {
            true => ("by-commands", String::new()),
            false => verdict(&samples[i], &samples[j], &states),
        };
        let row = [&operations[i].name, &operations[j].name, verdict, &because];
        Reply::Array(row.map(Reply::bulk).to_vec())
    });
    Reply::Array(rows.collect())
}
