//! Straight scripts: texts of guards and writes that run without a virtual machine.
//!
//! Most scripts of lock libraries compare a record with an argument, write, and return. Such a text consists
//! of calls of `redis.call`, comparisons, sums, `tonumber`, `if`, `local` and `return`, with no loops or
//! other functions. It becomes a [`Plan`] (`parse`), whose runs make the same calls and end with the same
//! replies as those of the interpreter, which stays the judge: a run that meets anything else than plain
//! values, an error for instance, begins again in a virtual machine, which is given the same replies.

mod parse;
#[cfg(test)]
mod tests;

use crate::convert::is_small;
use crate::machine::UNLIMITED_BYTES_MAX;
use crate::run::LuauRun;
use adt::collections::Map;
use adt::{ArgBuf, Blob, Reply};
use engine::limits::FRAME_BYTES_MAX;
use engine::script::{Run, Script, ScriptInput, ScriptInputs, ScriptName, ScriptStep, Use};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::cmp::Ordering;
use std::sync::Arc;

/// Largest integer up to which numbers of scripts, which are floats, hold every integer.
const WHOLE_MAX: u64 = 1 << 53;
/// Most digits of a number in a text.
const DIGITS_MAX: usize = 15;

/// Expression without calls.
#[derive(Clone, Debug, PartialEq)]
enum Term {
    /// `KEYS[n]`, from 0.
    Key(usize),
    /// `ARGV[n]`, from 0.
    Arg(usize),
    Text(Blob),
    Int(i64),
    True,
    False,
    Nil,
    /// The reply of an earlier call.
    Slot(usize),
    /// `tonumber`.
    Number(Box<Term>),
    /// The first, unless it is false or nil; else the second.
    Either(Box<Term>, Box<Term>),
    /// The sum, or the difference.
    Sum(Box<Term>, Box<Term>, bool),
}

/// Condition on terms.
#[derive(Clone, Debug, PartialEq)]
enum Test {
    /// Whether the term is neither false nor nil.
    Holds(Term, bool),
    Equals(Term, Term, bool),
    /// Whether the order of two numbers is one of these.
    Ordered(Term, Term, &'static [Ordering]),
}

/// Instruction of a plan.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    /// Runs a command, and keeps its reply in a slot, or drops it.
    Call(Vec<Term>, Option<usize>),
    /// Finds out whether a term has a value, where a script would compute it.
    Check(Term),
    /// Goes on at a step unless one of several lists of tests holds.
    Unless(Vec<Vec<Test>>, usize),
    /// Goes on at a step.
    Go(usize),
    /// Ends.
    Return(Term),
}

/// A straight script.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    steps: Vec<Step>,
    slots: usize,
}

/// Facts about a text.
struct Known {
    /// Plan, if the text is a straight one.
    plan: Option<Arc<Plan>>,
    /// Number of runs that had to begin again in a virtual machine.
    failed: u32,
}

/// Most texts of which a thread knows whether they have a plan.
const PLANS_MAX: usize = 1_000;
/// Longest text that may have a plan, in bytes.
const TEXT_BYTES_MAX: usize = 4 << 10;
/// Runs of a text that may begin again, until all of its runs begin in a virtual machine.
const FAILED_MAX: u32 = 100;

thread_local! {
    /// Plans of the texts that this thread has run.
    static PLANS: RefCell<Map<ScriptName, Known>> = RefCell::default();
}

/// Plan of a script, if it is a straight one.
pub fn plan(script: &Script) -> Option<Arc<Plan>> {
    if script.function.is_some() || script.text.len() > TEXT_BYTES_MAX {
        return None;
    }
    PLANS.with_borrow_mut(|plans| {
        if let Some(known) = plans.get(&script.name) {
            return known.plan.clone().filter(|_| known.failed < FAILED_MAX);
        }
        if plans.len() >= PLANS_MAX {
            plans.clear();
        }
        let first = crate::text::header(&script.text).map_or(0, |(_, first)| first);
        let plan = Plan::of(&script.text[first..]).map(Arc::new);
        plans.insert(script.name, Known { plan: plan.clone(), failed: 0 });
        plan
    })
}

/// Value that a term has in a run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Value<'r> {
    Text(&'r [u8]),
    Int(i64),
    True,
    False,
    Nil,
    /// Table with a status.
    Status(&'r str),
    /// Table of replies.
    List(&'r Reply),
}

impl<'r> Value<'r> {
    /// Value of a reply, if it is a plain one.
    fn of(reply: &'r Reply) -> Option<Self> {
        Some(match reply {
            Reply::Bulk(text) => Self::Text(text),
            Reply::Int(number) if number.unsigned_abs() <= WHOLE_MAX => Self::Int(*number),
            Reply::Nil | Reply::NilArray => Self::False,
            Reply::Ok => Self::Status("OK"),
            Reply::Status(text) => Self::Status(text),
            Reply::Array(_) => Self::List(reply),
            _ => return None,
        })
    }

    /// The number that a value is, or that its text is, if that is an integer.
    fn number(self) -> Option<i64> {
        let text = match self {
            Self::Int(number) => return Some(number),
            Self::Text(text) => std::str::from_utf8(text).ok()?,
            _ => return None,
        };
        let digits = text.strip_prefix('-').unwrap_or(text);
        let plain =
            (1..=DIGITS_MAX).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
        let number = text.parse().ok().filter(|_| plain)?;
        // There is a negative zero.
        (number != 0 || digits.len() == text.len()).then_some(number)
    }

    fn holds(self) -> bool {
        !matches!(self, Self::False | Self::Nil)
    }

    /// Whether two values are equal. Tables are not compared here.
    fn equals(self, other: Self) -> Option<bool> {
        let is_table = |value| matches!(value, Self::Status(_) | Self::List(_));
        if is_table(self) && is_table(other) { None } else { Some(self == other) }
    }

    fn order(self, other: Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Int(one), Self::Int(other)) => Some(one.cmp(&other)),
            _ => None,
        }
    }

    /// The value as a reply; none if it is not plain.
    fn reply(self) -> Option<Reply> {
        Some(match self {
            Self::Text(text) => Reply::Bulk(Blob::new(text)),
            Self::Int(number) => Reply::Int(number),
            Self::True => Reply::Int(1),
            Self::False | Self::Nil => Reply::Nil,
            Self::Status(text) => Reply::status(text.to_owned()),
            Self::List(Reply::Array(items)) => {
                let item = |item| match Self::of(item)? {
                    // Lists in lists may be too many for a script.
                    Self::List(_) => None,
                    item => item.reply(),
                };
                Reply::Array(items.iter().map(item).collect::<Option<_>>()?)
            }
            Self::List(_) => return None,
        })
    }
}

/// Run of a straight script.
#[derive(Debug)]
pub struct StraightRun {
    script: Arc<Script>,
    plan: Arc<Plan>,
    inputs: Arc<ScriptInputs>,
    /// Next step.
    at: usize,
    /// Number of steps so far.
    steps: u64,
    /// Replies of calls.
    slots: SmallVec<[Reply; 4]>,
    /// Slot of the reply that is waited for.
    awaits: Option<usize>,
    /// All inputs so far, for the interpreter.
    told: SmallVec<[ScriptInput; 4]>,
    /// The run in a virtual machine, once it is one.
    luau: Option<Box<LuauRun>>,
}

impl StraightRun {
    /// A run of a plan of this script.
    pub fn new(script: Arc<Script>, plan: Arc<Plan>, inputs: &Arc<ScriptInputs>) -> Self {
        let slots = SmallVec::from_elem(Reply::Nil, plan.slots);
        Self {
            script,
            plan,
            inputs: inputs.clone(),
            at: 0,
            steps: 0,
            slots,
            awaits: None,
            told: SmallVec::new(),
            luau: None,
        }
    }

    fn value<'r>(&'r self, term: &'r Term) -> Option<Value<'r>> {
        let word = |word: Option<&'r Blob>| word.map_or(Value::Nil, |word| Value::Text(word));
        Some(match term {
            Term::Key(at) => word(self.inputs.keys.get(*at)),
            Term::Arg(at) => word(self.inputs.args.get(*at)),
            Term::Text(text) => Value::Text(text),
            Term::Int(number) => Value::Int(*number),
            Term::True => Value::True,
            Term::False => Value::False,
            Term::Nil => Value::Nil,
            Term::Slot(at) => Value::of(self.slots.get(*at)?)?,
            Term::Number(term) => Value::Int(self.value(term)?.number()?),
            Term::Either(term, other) => match self.value(term)? {
                value if value.holds() => value,
                _ => self.value(other)?,
            },
            Term::Sum(one, other, minus) => {
                let (one, other) = (self.value(one)?.number()?, self.value(other)?.number()?);
                let sum = if *minus { one - other } else { one + other };
                Value::Int(Some(sum).filter(|sum| sum.unsigned_abs() <= WHOLE_MAX)?)
            }
        })
    }

    fn is_met(&self, test: &Test) -> Option<bool> {
        Some(match test {
            Test::Holds(term, wanted) => self.value(term)?.holds() == *wanted,
            Test::Equals(one, other, wanted) => {
                self.value(one)?.equals(self.value(other)?)? == *wanted
            }
            Test::Ordered(one, other, wanted) => {
                wanted.contains(&self.value(one)?.order(self.value(other)?)?)
            }
        })
    }

    /// Whether one of several lists of tests holds. Tests are judged from left to right, as far as necessary.
    fn any_holds(&self, lists: &[Vec<Test>]) -> Option<bool> {
        for list in lists {
            let mut holds = true;
            for test in list {
                holds = self.is_met(test)?;
                if !holds {
                    break;
                }
            }
            if holds {
                return Some(true);
            }
        }
        Some(false)
    }

    /// The words of a command.
    fn words(&self, terms: &[Term]) -> Option<ArgBuf> {
        let (mut words, mut bytes) = (ArgBuf::new(), 0);
        for term in terms {
            match self.value(term)? {
                Value::Text(text) => {
                    bytes += text.len();
                    words.push(text);
                }
                Value::Int(number) => _ = words.push_int(number),
                _ => return None,
            }
        }
        (bytes <= FRAME_BYTES_MAX).then_some(words)
    }

    /// Goes on up to the next call or the end; none if that is for the interpreter.
    fn go(&mut self) -> Option<ScriptStep> {
        let plan = self.plan.clone();
        loop {
            let step = plan.steps.get(self.at);
            self.at += 1;
            self.steps += 1;
            match step {
                None => return Some(ScriptStep::Done(Reply::Nil)),
                Some(Step::Return(term)) => {
                    return Some(ScriptStep::Done(self.value(term)?.reply()?));
                }
                Some(Step::Check(term)) => _ = self.value(term)?,
                Some(Step::Go(to)) => self.at = *to,
                Some(Step::Unless(tests, to)) => {
                    if !self.any_holds(tests)? {
                        self.at = *to;
                    }
                }
                Some(Step::Call(terms, slot)) => {
                    let words = self.words(terms)?;
                    self.awaits = *slot;
                    let used = if slot.is_some() { Use::Seen } else { Use::Dropped };
                    return Some(ScriptStep::Call(words, used));
                }
            }
        }
    }

    /// Takes an input. None if it is for the interpreter.
    fn take(&mut self, input: &ScriptInput) -> Option<()> {
        match (input, self.awaits.take()) {
            (ScriptInput::Reply(reply), Some(slot)) => {
                // The interpreter has a limit of memory.
                let small = is_small(reply, UNLIMITED_BYTES_MAX) || *reply == Reply::NilArray;
                Value::of(reply).filter(|_| small)?;
                self.slots[slot] = reply.clone();
            }
            (ScriptInput::Reply(reply), None) if reply.is_error() => return None,
            (ScriptInput::Reply(_) | ScriptInput::Go, None) => {}
            _ => return None,
        }
        Some(())
    }

    /// Begins again in a virtual machine, with the inputs so far.
    fn begin_again(&mut self) -> ScriptStep {
        PLANS.with_borrow_mut(|plans| {
            if let Some(known) = plans.get_mut(&self.script.name) {
                known.failed += 1;
            }
        });
        let mut run = crate::in_machine(&self.script, &self.inputs);
        let mut step = ScriptStep::Pause;
        for input in self.told.drain(..) {
            step = run.resume(input);
            while matches!(step, ScriptStep::Pause) {
                step = run.resume(ScriptInput::Go);
            }
            if matches!(step, ScriptStep::Done(_) | ScriptStep::Failed(_)) {
                break;
            }
        }
        self.luau = Some(Box::new(run));
        step
    }
}

impl Run for StraightRun {
    fn script(&self) -> &Script {
        &self.script
    }

    fn steps(&self) -> u64 {
        self.steps + self.luau.as_ref().map_or(0, |run| run.steps())
    }

    fn resume(&mut self, input: ScriptInput) -> ScriptStep {
        if let Some(run) = &mut self.luau {
            return run.resume(input);
        }
        let taken = self.take(&input);
        self.told.push(input);
        match taken.and_then(|()| self.go()) {
            Some(step) => step,
            None => self.begin_again(),
        }
    }
}
