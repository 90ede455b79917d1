//! From the text of a straight script to its plan. In doubt there is none.

use super::{DIGITS_MAX, Plan, Step, Term, Test};
use crate::text::{Kind, Word, words};
use adt::Blob;
use std::cmp::Ordering;

/// Longest plan, in steps.
const STEPS_MAX: usize = 128;
/// Most lists of tests of a condition, and most tests of a list.
const TESTS_MAX: usize = 8;
/// Most words of a command.
const WORDS_MAX: usize = 64;
/// Most operations of an expression, one in another.
const DEPTH_MAX: usize = 8;
/// Most terms in a term.
const TERMS_MAX: usize = 16;
/// Most terms of a plan.
const PLAN_TERMS_MAX: usize = 512;
/// Names that a text may not give to a value of its own.
const HOSTS: [&[u8]; 4] = [b"redis", b"KEYS", b"ARGV", b"tonumber"];

const COMPARISONS: [(&str, &[Ordering]); 4] = [
    ("<=", &[Ordering::Less, Ordering::Equal]),
    (">=", &[Ordering::Greater, Ordering::Equal]),
    ("<", &[Ordering::Less]),
    (">", &[Ordering::Greater]),
];

impl Plan {
    /// Plan of a text without its first line.
    pub fn of(text: &[u8]) -> Option<Self> {
        let words = words(text)?;
        let mut parser = Parser {
            words: &words,
            at: 0,
            steps: Vec::new(),
            slots: 0,
            depth: 0,
            lazy: false,
            names: Vec::new(),
        };
        parser.block()?;
        let calls = parser.steps.iter().any(|step| matches!(step, Step::Call(..)));
        let terms: usize = parser.steps.iter().map(terms).sum();
        let small = parser.steps.len() <= STEPS_MAX && terms <= PLAN_TERMS_MAX;
        let ended = parser.at == words.len() && small && calls;
        ended.then_some(Self { steps: parser.steps, slots: parser.slots })
    }
}

struct Parser<'w, 't> {
    words: &'w [Word<'t>],
    at: usize,
    steps: Vec<Step>,
    slots: usize,
    /// How many expressions the present one is in.
    depth: usize,
    /// Whether the present expression may not be reached.
    lazy: bool,
    /// Local names with their values, the innermost last.
    names: Vec<(&'t [u8], Term)>,
}

/// Number of terms in a term.
fn size(term: &Term) -> usize {
    match term {
        Term::Number(term) => 1 + size(term),
        Term::Either(one, other) | Term::Sum(one, other, _) => 1 + size(one) + size(other),
        _ => 1,
    }
}

/// Number of terms in a step.
fn terms(step: &Step) -> usize {
    let of_test = |test: &Test| match test {
        Test::Holds(term, _) => size(term),
        Test::Equals(one, other, _) | Test::Ordered(one, other, _) => size(one) + size(other),
    };
    match step {
        Step::Call(terms, _) => terms.iter().map(size).sum(),
        Step::Check(term) | Step::Return(term) => size(term),
        Step::Unless(lists, _) => lists.iter().flatten().map(of_test).sum(),
        Step::Go(_) => 0,
    }
}

impl<'t> Parser<'_, 't> {
    fn next_is(&self, text: &str) -> bool {
        self.words.get(self.at).is_some_and(|word| word.is(text))
    }

    /// Takes a word if it is this one.
    fn takes(&mut self, text: &str) -> bool {
        let taken = self.next_is(text);
        self.at += usize::from(taken);
        taken
    }

    fn expect(&mut self, text: &str) -> Option<()> {
        self.takes(text).then_some(())
    }

    /// Takes signs that stand together.
    fn takes_signs(&mut self, signs: &str) -> bool {
        let together = |at: usize| {
            at == 0 || {
                let before = &self.words[self.at + at - 1];
                self.words[self.at + at].at == before.at + 1
            }
        };
        let is = |(at, sign): (usize, char)| {
            let word = self.words.get(self.at + at);
            word.is_some_and(|word| word.is(sign.encode_utf8(&mut [0; 4]))) && together(at)
        };
        let taken = signs.chars().enumerate().all(is);
        self.at += if taken { signs.len() } else { 0 };
        taken
    }

    fn name(&mut self) -> Option<&'t [u8]> {
        let word = self.words.get(self.at).filter(|word| word.kind == Kind::Name)?;
        self.at += 1;
        Some(word.text)
    }

    /// Statements up to the end of their block.
    fn block(&mut self) -> Option<()> {
        let names = self.names.len();
        while self.at < self.words.len()
            && !["end", "else", "elseif"].iter().any(|word| self.next_is(word))
        {
            if self.steps.len() > STEPS_MAX {
                return None;
            }
            self.statement()?;
            self.takes(";");
        }
        self.names.truncate(names);
        Some(())
    }

    fn statement(&mut self) -> Option<()> {
        if self.takes("if") {
            return self.choice();
        }
        if self.takes("return") {
            let ends = |parser: &Self| {
                let words = [";", "end", "else", "elseif"];
                parser.at == parser.words.len() || words.iter().any(|word| parser.next_is(word))
            };
            let term = if ends(self) { Term::Nil } else { self.value()? };
            self.steps.push(Step::Return(term));
            return ends(self).then_some(());
        }
        if self.takes("local") {
            let name = self.name().filter(|name| !HOSTS.contains(name))?;
            self.expect("=")?;
            let term = self.either_value()?;
            self.names.push((name, term));
            return Some(());
        }
        let words = self.call()?;
        self.steps.push(Step::Call(words, None));
        Some(())
    }

    /// The rest of an `if` behind that word.
    fn choice(&mut self) -> Option<()> {
        let mut ends = Vec::new();
        loop {
            let tests = self.either(&mut true)?;
            self.expect("then")?;
            let guard = self.steps.len();
            self.steps.push(Step::Unless(tests, 0));
            self.block()?;
            let others = self.next_is("else") || self.next_is("elseif");
            if others {
                ends.push(self.steps.len());
                self.steps.push(Step::Go(0));
            }
            let behind = self.steps.len();
            if let Step::Unless(_, to) = &mut self.steps[guard] {
                *to = behind;
            }
            if !self.takes("elseif") {
                break;
            }
        }
        if self.takes("else") {
            self.block()?;
        }
        self.expect("end")?;
        let behind = self.steps.len();
        for end in ends {
            self.steps[end] = Step::Go(behind);
        }
        Some(())
    }

    /// Tests between `or`. A call may only be in the first test, which is judged in any case: `first` is
    /// whether that is still to come.
    fn either(&mut self, first: &mut bool) -> Option<Vec<Vec<Test>>> {
        let mut lists = self.both(first)?;
        while self.takes("or") {
            lists.extend(self.both(first)?);
        }
        (lists.len() <= TESTS_MAX).then_some(lists)
    }

    /// Tests between `and`.
    fn both(&mut self, first: &mut bool) -> Option<Vec<Vec<Test>>> {
        let mut lists = self.test(first)?;
        while self.takes("and") {
            let further = self.test(first)?;
            let with = |list: &Vec<Test>| {
                let list = list.clone();
                further
                    .iter()
                    .map(move |more| [list.clone(), more.clone()].concat())
                    .collect::<Vec<_>>()
            };
            lists = lists.iter().flat_map(with).collect();
            if lists.len() > TESTS_MAX || lists.iter().any(|list| list.len() > TESTS_MAX) {
                return None;
            }
        }
        Some(lists)
    }

    fn test(&mut self, first: &mut bool) -> Option<Vec<Vec<Test>>> {
        if self.takes("(") {
            let lists = self.either(first)?;
            self.expect(")")?;
            // It is a value of a larger expression.
            let goes_on = self
                .words
                .get(self.at)
                .is_some_and(|word| word.kind == Kind::Sign || word.kind == Kind::Text);
            return (!goes_on || self.next_is(")")).then_some(lists);
        }
        // What is not judged in any case takes no steps of its own.
        let before = self.steps.len();
        self.lazy = !std::mem::replace(first, false);
        let test = self.plain_test()?;
        let steps = self.steps.len() - before;
        let fits = steps == 0 || !std::mem::replace(&mut self.lazy, false);
        self.lazy = false;
        fits.then(|| vec![vec![test]])
    }

    fn plain_test(&mut self) -> Option<Test> {
        if self.takes("not") {
            let term = self.operand()?;
            return self.ends_test().then_some(Test::Holds(term, false));
        }
        let one = self.value()?;
        for (signs, equals) in [("==", true), ("~=", false)] {
            if self.takes_signs(signs) {
                let other = self.value()?;
                return self.ends_test().then_some(Test::Equals(one, other, equals));
            }
        }
        for (signs, orders) in COMPARISONS {
            if self.takes_signs(signs) {
                let other = self.value()?;
                return self.ends_test().then_some(Test::Ordered(one, other, orders));
            }
        }
        self.ends_test().then_some(Test::Holds(one, true))
    }

    fn ends_test(&self) -> bool {
        ["then", "and", "or", ")"].iter().any(|word| self.next_is(word))
    }

    /// A value: a sum of operands. That of a call is in a slot, and its step is added.
    fn value(&mut self) -> Option<Term> {
        let mut value = self.operand()?;
        for _ in 0..DEPTH_MAX {
            let minus = match () {
                () if self.takes("+") => false,
                () if self.takes("-") => true,
                () => return Some(value),
            };
            let other = self.operand()?;
            value = self.computed(Term::Sum(Box::new(value), Box::new(other), minus))?;
        }
        None
    }

    /// A value, or another one if it is false or nil.
    fn either_value(&mut self) -> Option<Term> {
        let value = self.value()?;
        if !self.takes("or") {
            return Some(value);
        }
        let other = self.term()?;
        let ends = !["or", "and", "+", "-"].iter().any(|word| self.next_is(word));
        let either = Term::Either(Box::new(value), Box::new(other));
        ends.then_some(()).and_then(|()| self.computed(either))
    }

    /// A term that is computed where it stands, even if what needs it is never reached.
    fn computed(&mut self, term: Term) -> Option<Term> {
        if !self.lazy {
            self.steps.push(Step::Check(term.clone()));
        }
        (size(&term) <= TERMS_MAX).then_some(term)
    }

    fn operand(&mut self) -> Option<Term> {
        if self.next_is("redis") {
            let words = self.call()?;
            let slot = self.slots;
            self.slots += 1;
            self.steps.push(Step::Call(words, Some(slot)));
            return Some(Term::Slot(slot));
        }
        if self.takes("tonumber") {
            self.depth += 1;
            self.expect("(").filter(|()| self.depth <= DEPTH_MAX)?;
            let term = self.either_value()?;
            self.depth -= 1;
            self.expect(")")?;
            return self.computed(Term::Number(Box::new(term)));
        }
        self.term()
    }

    /// A value that is no call.
    fn term(&mut self) -> Option<Term> {
        let minus = self.takes("-");
        let word = *self.words.get(self.at)?;
        self.at += 1;
        match word.kind {
            Kind::Number => {
                let digits = std::str::from_utf8(word.text).ok()?;
                let plain =
                    digits.len() <= DIGITS_MAX && digits.bytes().all(|b| b.is_ascii_digit());
                let number: i64 = digits.parse().ok().filter(|_| plain)?;
                // There is a negative zero.
                (!minus || number != 0).then_some(Term::Int(if minus { -number } else { number }))
            }
            _ if minus => None,
            Kind::Text => {
                let quote = *word.text.first()?;
                let inner = word.text.get(1..word.text.len().checked_sub(1)?)?;
                let plain = matches!(quote, b'\'' | b'"') && word.text.last() == Some(&quote);
                let escapes = inner.iter().any(|b| matches!(b, b'\\' | b'\n' | b'\r'));
                (plain && !escapes).then(|| Term::Text(Blob::new(inner)))
            }
            Kind::Name if word.is("true") => Some(Term::True),
            Kind::Name if word.is("false") => Some(Term::False),
            Kind::Name if word.is("nil") => Some(Term::Nil),
            Kind::Name if word.is("KEYS") => Some(Term::Key(self.index()?)),
            Kind::Name if word.is("ARGV") => Some(Term::Arg(self.index()?)),
            Kind::Name => {
                let known = self.names.iter().rev().find(|(name, _)| *name == word.text);
                known.map(|(_, term)| term.clone())
            }
            Kind::Sign => None,
        }
    }

    /// An index in brackets, from 0.
    fn index(&mut self) -> Option<usize> {
        self.expect("[")?;
        let Term::Int(index) = self.term()? else { return None };
        self.expect("]")?;
        usize::try_from(index).ok()?.checked_sub(1)
    }

    /// The words of a call of `redis.call`.
    fn call(&mut self) -> Option<Vec<Term>> {
        ["redis", ".", "call", "("].iter().try_for_each(|word| self.expect(word))?;
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return None;
        }
        let mut words = vec![self.value()?];
        while self.takes(",") {
            words.push(self.value()?);
        }
        self.depth -= 1;
        self.expect(")")?;
        (words.len() <= WORDS_MAX).then_some(words)
    }
}
