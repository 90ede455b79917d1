//! Steps with a heading, a time and a count; the last line says how many passed and failed.

use std::time::{Duration, Instant};

/// Numbers of checks of a step. A step that is one check counts as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    pub passed: u64,
    pub failed: u64,
}

impl Count {
    /// A step that is a single check, and passed.
    pub const ONE: Self = Self { passed: 1, failed: 0 };
}

/// Outcome of a step that ran to its end.
pub enum Outcome {
    /// Ran; some of its checks may have failed.
    Ran(Count),
    /// Nothing to run, for a reason that is shown.
    NotRun(String),
}

/// The steps so far.
pub struct Report {
    started: Instant,
    /// Longest time for all steps together.
    budget: Duration,
    /// Duration of each step, in seconds.
    steps: Vec<(String, f64)>,
    total: Count,
    failures: Vec<String>,
}

impl Report {
    /// A report without steps, with a budget in seconds.
    pub fn new(budget_seconds: u64) -> Self {
        Self {
            started: Instant::now(),
            budget: Duration::from_secs(budget_seconds),
            steps: Vec::new(),
            total: Count::default(),
            failures: Vec::new(),
        }
    }

    /// Runs a step and adds it up. Returns whether it ran without a failure.
    pub fn step(&mut self, name: &str, run: impl FnOnce() -> Result<Outcome, String>) -> bool {
        println!("\n== {name}");
        let begin = Instant::now();
        let result = run();
        self.steps.push((name.to_owned(), begin.elapsed().as_secs_f64()));
        let took = seconds(begin.elapsed());
        match result {
            Ok(Outcome::Ran(count)) if count.failed == 0 => {
                self.total.passed += count.passed;
                println!("-- {name}: ok, {took}");
                true
            }
            Ok(Outcome::Ran(count)) => {
                self.total.passed += count.passed;
                self.fail(name, count.failed, &format!("{} failed", count.failed), &took)
            }
            Ok(Outcome::NotRun(why)) => {
                println!("-- {name}: not run: {why}");
                false
            }
            Err(why) => self.fail(name, 1, &why, &took),
        }
    }

    /// A step that is one check.
    pub fn check(&mut self, name: &str, run: impl FnOnce() -> Result<(), String>) -> bool {
        self.step(name, || run().map(|()| Outcome::Ran(Count::ONE)))
    }

    fn fail(&mut self, name: &str, count: u64, why: &str, took: &str) -> bool {
        self.total.failed += count;
        println!("-- {name}: FAILED after {took}: {why}");
        self.failures.push(format!("{name}: {why}"));
        false
    }

    /// A line for each step with its seconds and its part of the whole, and one for the whole.
    fn table(&self, whole: Duration) -> String {
        let whole_s = whole.as_secs_f64();
        let width = self.steps.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
        let line = |name: &str, took_s: f64| {
            let percent = 100.0 * took_s / whole_s.max(f64::MIN_POSITIVE);
            format!("{name:width$}  {took_s:7.1} s  {percent:3.0} %\n")
        };
        let steps: String = self.steps.iter().map(|(name, took_s)| line(name, *took_s)).collect();
        steps + &line("all", whole_s)
    }

    /// Prints the duration of each step, the failures again, at the end where they are visible, and
    /// the counts as the last line. Steps that took longer than the budget together are a failure.
    pub fn finish(mut self) -> Result<(), String> {
        let took = self.started.elapsed();
        println!("\n== result after {}", seconds(took));
        print!("{}", self.table(took));
        if took > self.budget {
            self.total.failed += 1;
            let budget = seconds(self.budget);
            self.failures.push(format!("budget: all steps together may take {budget}"));
        }
        for failure in &self.failures {
            println!("FAILED {failure}");
        }
        println!("{} passed, {} failed", self.total.passed, self.total.failed);
        match self.failures.len() {
            0 => Ok(()),
            1 => Err("one step failed".into()),
            n => Err(format!("{n} steps failed")),
        }
    }
}

/// A duration for people: `12.3 s`, `4 min 05 s`.
fn seconds(duration: Duration) -> String {
    let whole = duration.as_secs();
    if whole < 60 {
        format!("{:.1} s", duration.as_secs_f64())
    } else {
        format!("{} min {:02} s", whole / 60, whole % 60)
    }
}

/// Reads libtest's summary, `test result: ok. 3 passed; 0 failed; ...`.
pub fn libtest_count(line: &str) -> Option<Count> {
    line.starts_with("test result: ").then(|| numbers(line))
}

/// Reads pytest's summary, `2 failed, 7 passed, 1 error in 1.20s`.
pub fn pytest_count(line: &str) -> Option<Count> {
    let line = line.trim_matches('=').trim();
    let summary = line.starts_with(|c: char| c.is_ascii_digit()) && line.contains(" in ");
    summary.then(|| numbers(line)).filter(|count| *count != Count::default())
}

/// Adds up `N passed`, `N failed` and `N errors` wherever they stand in the line.
fn numbers(line: &str) -> Count {
    let words: Vec<&str> = line.split([' ', ',', ';']).filter(|word| !word.is_empty()).collect();
    let mut count = Count::default();
    for pair in words.windows(2) {
        let Ok(n) = pair[0].parse::<u64>() else { continue };
        match pair[1] {
            "passed" => count.passed += n,
            "failed" | "error" | "errors" => count.failed += n,
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_of_both_test_runners_are_read() {
        let rust =
            "test result: FAILED. 12 passed; 3 failed; 0 ignored; 0 measured; 1 filtered out";
        assert_eq!(libtest_count(rust), Some(Count { passed: 12, failed: 3 }));
        assert_eq!(libtest_count("test adt::kinds::set::tests::x ... ok"), None);
        let python = "2 failed, 7 passed, 1 error in 1.20s";
        assert_eq!(pytest_count(python), Some(Count { passed: 7, failed: 3 }));
        let decorated = "===== 5 passed in 0.10s =====";
        assert_eq!(pytest_count(decorated), Some(Count { passed: 5, failed: 0 }));
        assert_eq!(pytest_count("3 items collected"), None);
    }

    #[test]
    fn a_report_with_a_failure_is_an_error() {
        let mut report = Report::new(3600);
        assert!(report.step("fine", || Ok(Outcome::Ran(Count { passed: 2, failed: 0 }))));
        assert!(!report.step("absent", || Ok(Outcome::NotRun("nothing there".into()))));
        assert!(!report.step("half", || Ok(Outcome::Ran(Count { passed: 1, failed: 4 }))));
        assert!(!report.step("broken", || Err("it broke".into())));
        assert_eq!(report.total, Count { passed: 3, failed: 5 });
        assert_eq!(report.finish(), Err("2 steps failed".into()));
    }

    #[test]
    fn steps_are_a_table_and_more_than_the_budget_is_a_failure() {
        let mut report = Report::new(0);
        assert!(report.check("fine", || Ok(())));
        assert!(report.check("with a longer name", || Ok(())));
        report.steps = vec![("fine".into(), 30.04), ("with a longer name".into(), 90.0)];
        let table = "\
fine                   30.0 s   25 %
with a longer name     90.0 s   75 %
all                   120.0 s  100 %
";
        assert_eq!(report.table(Duration::from_secs(120)), table);
        assert_eq!(report.finish(), Err("one step failed".into()));
    }

    #[test]
    fn times_are_shown_for_people() {
        assert_eq!(seconds(Duration::from_millis(1250)), "1.2 s");
        assert_eq!(seconds(Duration::from_secs(245)), "4 min 05 s");
    }
}
