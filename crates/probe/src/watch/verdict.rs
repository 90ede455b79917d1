//! From windows to verdicts: one bad window does not make a machine slow, nor one good window
//! healthy.

use super::ask::Figures;
use super::disks::{self, AppendRow, Disks};
use super::judge::{Class, Found, judge};
use super::{FIGURES_US_MAX, FLOOR_US, LOST_US};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

/// Number of recent windows that count.
const WINDOWS: u32 = 6;
/// Number of windows among them that must have a finding.
const WINDOWS_MIN: u32 = 3;
/// Consecutive windows without a finding that end a verdict: five minutes.
const CALM_WINDOWS: u32 = 30;
/// Threshold of a finding, in percent of the usual.
const BEGINS_PERCENT: u64 = 200;
/// Threshold below which a finding ends, in percent of the usual.
const ENDS_PERCENT: u64 = 150;
/// Maximum number of events that are kept.
const EVENTS_MAX: usize = 200;

/// Subject of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A machine from which most others see late answers.
    Slow(u16),
    /// A machine that sees late answers from all others, though they are not late.
    Observer(u16),
    /// The connection of two machines.
    Link(u16, u16),
    /// More than half of the machines.
    Everywhere,
    /// A machine with only its disk slow.
    Disk(u16),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slow(machine) => write!(f, "machine {machine} is slow"),
            Self::Observer(machine) => {
                write!(f, "machine {machine} sees late answers from all others")
            }
            Self::Link(a, b) => write!(f, "the connection of machines {a} and {b} is bad"),
            Self::Everywhere => write!(f, "most machines are late"),
            Self::Disk(machine) => write!(f, "the disk of machine {machine} is slow"),
        }
    }
}

impl Subject {
    /// Machine that leads should leave, if the verdict concerns one.
    pub fn to_be_left(self) -> Option<u16> {
        match self {
            Self::Slow(machine) | Self::Observer(machine) | Self::Disk(machine) => Some(machine),
            Self::Link(..) | Self::Everywhere => None,
        }
    }

    fn concerns(self, machine: u16) -> bool {
        match self {
            Self::Slow(one) | Self::Observer(one) | Self::Disk(one) => one == machine,
            Self::Link(a, b) => a == machine || b == machine,
            Self::Everywhere => false,
        }
    }
}

/// A current finding, which is reported until enough windows have passed without it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Finding and its subject.
    pub subject: Subject,
    /// Start of the finding, in microseconds.
    pub since_us: u64,
    /// Evidence for the finding.
    pub evidence: String,
}

/// A finding that has started or ended, a proposal, or an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Time, in milliseconds since 1970.
    pub at_ms: u64,
    /// Subject of the event.
    pub what: String,
    /// State before.
    pub before: String,
    /// State after.
    pub after: String,
    /// Evidence for the event.
    pub evidence: String,
}

#[derive(Debug, Default)]
struct Case {
    /// Findings in the last windows, the newest in the lowest bit.
    recent: u32,
    verdict: Option<(u64, String)>,
    calm: u32,
}

/// Judge, with the measurements of all machines and the verdicts.
#[derive(Debug, Default)]
pub struct Judge {
    members: BTreeSet<u16>,
    /// Figures of each machine, with their time of arrival.
    told: BTreeMap<u16, (u64, Figures)>,
    appends: BTreeMap<u16, (u64, Vec<AppendRow>)>,
    cases: BTreeMap<Subject, Case>,
    found: Found,
    events: VecDeque<Event>,
}

impl Judge {
    /// Sets the machines of the cluster; data of others is dropped.
    pub fn know(&mut self, members: impl IntoIterator<Item = u16>) {
        self.members = members.into_iter().collect();
        let members = &self.members;
        self.told.retain(|machine, _| members.contains(machine));
        self.appends.retain(|machine, _| members.contains(machine));
        let gone = |subject: &Subject| match *subject {
            Subject::Slow(machine) | Subject::Observer(machine) | Subject::Disk(machine) => {
                !members.contains(&machine)
            }
            Subject::Link(a, b) => !members.contains(&a) || !members.contains(&b),
            Subject::Everywhere => false,
        };
        self.cases.retain(|subject, _| !gone(subject));
    }

    /// Handles the figures of a machine, possibly this one.
    pub fn hear(&mut self, now_us: u64, machine: u16, figures: Figures) {
        if self.members.contains(&machine) {
            self.told.insert(machine, (now_us, figures));
        }
    }

    /// Handles a machine's times of appends on others; the machine may be this one.
    pub fn hear_appends(&mut self, now_us: u64, machine: u16, rows: Vec<AppendRow>) {
        if self.members.contains(&machine) {
            self.appends.insert(machine, (now_us, rows));
        }
    }

    /// Ends a window. Returns the findings that start or end with it.
    pub fn close(&mut self, now_us: u64, at_ms: u64) -> Vec<Event> {
        let mut new = Vec::new();
        let is_new = |at_us: &u64| now_us.saturating_sub(*at_us) <= FIGURES_US_MAX;
        self.told.retain(|_, (at_us, _)| is_new(at_us));
        self.appends.retain(|_, (at_us, _)| is_new(at_us));
        let said = Said {
            members: &self.members,
            told: self.told.iter().map(|(machine, (_, figures))| (*machine, figures)).collect(),
            appends: self
                .appends
                .iter()
                .map(|(machine, (_, rows))| (*machine, &rows[..]))
                .collect(),
        };
        let findings = said.findings(BEGINS_PERCENT);
        let held = said.findings(ENDS_PERCENT).subjects();
        let begun = findings.subjects();
        let known: BTreeSet<Subject> = self.cases.keys().copied().chain(begun.clone()).collect();
        for subject in known {
            let case = self.cases.entry(subject).or_default();
            case.recent =
                (case.recent << 1 | u32::from(begun.contains(&subject))) & ((1 << WINDOWS) - 1);
            let evidence = || said.evidence(subject, &findings.found);
            let event = if case.verdict.is_none() {
                (case.recent.count_ones() >= WINDOWS_MIN).then(|| {
                    (case.verdict, case.calm) = (Some((now_us, evidence())), 0);
                    ("well", "found")
                })
            } else if held.contains(&subject) {
                case.calm = 0;
                None
            } else if findings.are_about(subject) {
                case.calm += 1;
                (case.calm >= CALM_WINDOWS).then(|| {
                    case.verdict = None;
                    case.recent = 0;
                    ("found", "well")
                })
            } else {
                None
            };
            if let Some((before, after)) = event {
                let (before, after) = (before.to_owned(), after.to_owned());
                let what = subject.to_string();
                new.push(Event { at_ms, what, before, after, evidence: evidence() });
            }
        }
        self.cases.retain(|_, case| case.verdict.is_some() || case.recent != 0);
        self.found = findings.found;
        new.iter().for_each(|event| push(&mut self.events, event.clone()));
        new
    }

    /// Current verdicts.
    pub fn verdicts(&self) -> Vec<Verdict> {
        let held = self.cases.iter().filter_map(|(subject, case)| {
            let (since_us, evidence) = case.verdict.clone()?;
            Some(Verdict { subject: *subject, since_us, evidence })
        });
        held.collect()
    }

    /// Findings of the last window alone.
    pub fn found(&self) -> &Found {
        &self.found
    }

    /// Figures of each machine, with their time of arrival.
    pub fn told(&self) -> impl Iterator<Item = (u16, u64, &Figures)> {
        self.told.iter().map(|(machine, (at_us, figures))| (*machine, *at_us, figures))
    }

    /// Times of a machine's appends on others, by its last message.
    pub fn appends(&self, machine: u16) -> &[AppendRow] {
        self.appends.get(&machine).map_or(&[], |(_, rows)| rows)
    }

    /// Newest events, in the order of time.
    pub fn events(&self) -> impl DoubleEndedIterator<Item = &Event> {
        self.events.iter()
    }

    /// Records another event.
    pub fn note(&mut self, event: Event) {
        push(&mut self.events, event);
    }
}

fn push(events: &mut VecDeque<Event>, event: Event) {
    if events.len() >= EVENTS_MAX {
        events.pop_front();
    }
    events.push_back(event);
}

/// Measurements of all machines in one window.
struct Said<'a> {
    members: &'a BTreeSet<u16>,
    told: BTreeMap<u16, &'a Figures>,
    appends: BTreeMap<u16, &'a [AppendRow]>,
}

/// Findings of one window.
struct Findings {
    found: Found,
    disks: Disks,
}

impl Findings {
    fn subjects(&self) -> BTreeSet<Subject> {
        let machines = self.found.machines.iter().map(|(machine, class)| match class {
            Class::Slow => Subject::Slow(*machine),
            Class::Observer => Subject::Observer(*machine),
        });
        let links = self.found.links.iter().map(|(a, b)| Subject::Link(*a, *b));
        let everywhere = self.found.everywhere.then_some(Subject::Everywhere);
        let disks = self.disks.slow.iter().map(|machine| Subject::Disk(*machine));
        machines.chain(links).chain(everywhere).chain(disks).collect()
    }

    /// Whether there are any figures that could end the finding.
    fn are_about(&self, subject: Subject) -> bool {
        let measured = &self.found.measured;
        match subject {
            Subject::Slow(machine) | Subject::Observer(machine) => measured.contains(&machine),
            Subject::Link(a, b) => measured.contains(&a) && measured.contains(&b),
            Subject::Everywhere => !measured.is_empty(),
            Subject::Disk(machine) => self.disks.measured.contains(&machine),
        }
    }
}

/// A latency as text.
fn ms(us: u32) -> String {
    match us {
        LOST_US => "no answer".to_owned(),
        us => format!("{:.1} ms", f64::from(us) / 1e3),
    }
}

impl Said<'_> {
    fn findings(&self, percent: u64) -> Findings {
        let found = judge(self.members, &self.told, percent);
        let disks = disks::judge(self.members, &self.appends, &found, percent);
        Findings { found, disks }
    }

    /// Observations of a subject, and the largest known share of it.
    fn evidence(&self, subject: Subject, found: &Found) -> String {
        let mut said = match subject {
            Subject::Disk(machine) => disks::evidence(machine, &self.appends, &self.told, ms),
            _ => self.of_questions(subject),
        };
        if !found.silent.is_empty() {
            let silent: Vec<String> = found.silent.iter().map(u16::to_string).collect();
            said.push(format!("silent: {}", silent.join(", ")));
        }
        said.join("; ")
    }

    fn of_questions(&self, subject: Subject) -> Vec<String> {
        let told = &self.told;
        let rows =
            told.iter().flat_map(|(from, figures)| figures.rows.iter().map(|row| (*from, row)));
        let concerned = rows.filter(|(from, row)| match subject {
            Subject::Slow(machine) => row.machine == machine,
            Subject::Observer(machine) => *from == machine,
            Subject::Link(a, b) => (*from, row.machine) == (a, b) || (*from, row.machine) == (b, a),
            Subject::Everywhere => true,
            Subject::Disk(_) => false,
        });
        let mut said: Vec<String> = Vec::new();
        let (mut excess_us, mut service_us) = (0, 0);
        for (from, row) in concerned {
            excess_us = excess_us.max(row.p90_us.saturating_sub(row.near_us));
            service_us = service_us.max(row.service_us);
            let (p90, near) = (ms(row.p90_us), ms(row.near_us));
            said.push(format!(
                "{from} to {}: p90 {p90}, shortest {near}, {} lost",
                row.machine, row.lost
            ));
        }
        said.truncate(8);
        if let Some(machine) = subject.to_be_left() {
            let late_us = told.get(&machine).map_or(0, |figures| figures.late_us);
            let half_us = (excess_us / 2).max(FLOOR_US);
            said.push(match () {
                () if late_us >= half_us => format!(
                    "its own timers are late by {}: it pauses, or waits for a processor",
                    ms(late_us)
                ),
                () if service_us >= half_us => {
                    format!("it takes {} to answer: it is overloaded", ms(service_us))
                }
                () => "its timers are punctual: check its network, and its processor limits"
                    .to_owned(),
            });
        }
        said
    }
}

impl Verdict {
    /// Whether the subject is this machine, alone or with another one.
    pub fn concerns(&self, machine: u16) -> bool {
        self.subject.concerns(machine)
    }
}
