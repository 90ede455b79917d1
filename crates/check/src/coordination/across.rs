//! Existence of one order of all requests of all sessions over all services. Each service has an
//! order of requests about the same nodes, each session has the order of its requests, and a
//! request comes after every request that was answered before it was sent. The union of these
//! orders must not contain a cycle.

use super::{Answer, Asked, History, Request, Zxid, code, report};
use crate::verdict::Verdict;
use std::collections::BTreeMap;

/// A service that carried out a request, and the objects there that determine its order with other
/// requests.
pub type Concerns = (usize, Vec<Vec<u8>>);

/// A request that was carried out, with its place.
struct Step<'a> {
    session: i64,
    asked: &'a Asked,
    /// Time of its answer, if there was one.
    answered_us: Option<u64>,
    zxid: Zxid,
    /// One entry for each service that took part in it.
    concerns: Vec<Concerns>,
}

impl Step<'_> {
    /// Number of the change at a service that it was, or after which it was carried out there.
    fn at(&self, service: usize) -> Zxid {
        let part = self.asked.parts.iter().find(|(of, _)| *of == service);
        part.map_or(self.zxid, |(_, zxid)| *zxid)
    }
}

/// An access to an object: change number, whether it only read, and the step.
type Done = (Zxid, bool, usize);

/// Precedence graph of steps, and of moments, which have numbers behind all steps.
#[derive(Default)]
struct Order {
    next: Vec<Vec<usize>>,
    before: Vec<usize>,
}

impl Order {
    fn of(nodes: usize) -> Self {
        Self { next: vec![Vec::new(); nodes], before: vec![0; nodes] }
    }

    fn put(&mut self, first: usize, second: usize) {
        self.next[first].push(second);
        self.before[second] += 1;
    }

    /// Nodes in a cycle or behind one.
    fn left(&self) -> Vec<usize> {
        let mut before = self.before.clone();
        let mut free: Vec<usize> = (0..before.len()).filter(|node| before[*node] == 0).collect();
        while let Some(node) = free.pop() {
            for next in &self.next[node] {
                before[*next] -= 1;
                if before[*next] == 0 {
                    free.push(*next);
                }
            }
        }
        (0..before.len()).filter(|node| before[*node] > 0).collect()
    }

    /// A cycle, if there is one.
    fn circle(&self) -> Option<Vec<usize>> {
        let left = self.left();
        let is_left = |node: &usize| left.binary_search(node).is_ok();
        // Each remaining node has a remaining predecessor, so walking back must enter a cycle.
        let mut previous: BTreeMap<usize, usize> = BTreeMap::new();
        for node in &left {
            for next in self.next[*node].iter().filter(|next| is_left(next)) {
                previous.insert(*next, *node);
            }
        }
        let mut at = *left.first()?;
        let mut seen = Vec::new();
        while !seen.contains(&at) {
            seen.push(at);
            at = *previous.get(&at)?;
        }
        let begin = seen.iter().position(|node| *node == at)?;
        let mut circle = seen.split_off(begin);
        circle.reverse();
        Some(circle)
    }
}

/// Reports a cycle, if there is one. `concerns` returns the objects of a request; `is_certain` says
/// whether the log entry of an unanswered change is certainly this request's.
pub(super) fn check(
    history: &History,
    concerns: impl Fn(&Request) -> Vec<Concerns>,
    is_certain: impl Fn(&super::Session, &Request) -> bool,
    verdict: &mut Verdict,
) {
    let mut steps = Vec::new();
    for session in &history.sessions {
        let exchanges = session.connections.iter().flat_map(|connection| connection.exchanges());
        for (asked, answered) in exchanges {
            let certain = answered.is_some() || is_certain(session, &asked.request);
            let zxid = number(asked, answered).filter(|_| certain);
            let mut concerns = concerns(&asked.request);
            let is_part = |service| asked.parts.iter().any(|(of, _)| *of == service);
            if concerns.len() > 1 {
                concerns.retain(|(service, _)| is_part(*service));
            }
            let Some(zxid) = zxid.filter(|_| !concerns.is_empty()) else { continue };
            let answered_us = answered.map(|(time_us, ..)| time_us);
            steps.push(Step { session: session.id, asked, answered_us, zxid, concerns });
        }
    }
    verdict.count("ordered", steps.len());
    verdict.count("joint", steps.iter().filter(|step| step.concerns.len() > 1).count());
    let Some(circle) = order(&steps).circle() else { return };
    let tell = |node: usize| {
        steps.get(node).map(|step| {
            let Step { session, asked, concerns, .. } = step;
            let changes = concerns.iter().map(|(service, _)| (step.at(*service), *service));
            let changes: Vec<String> =
                changes.map(|(zxid, service)| format!("change {zxid} of {service}")).collect();
            format!(
                "session {session}: {:?} at {}, {}",
                asked.request,
                asked.time_us,
                changes.join(" and ")
            )
        })
    };
    let told: Vec<String> = circle.into_iter().filter_map(tell).collect();
    report(verdict, "no-order", told.join("; then "));
}

/// Number of the change that it is, or after which it was carried out.
fn number(asked: &Asked, answered: Option<(u64, Zxid, &Answer)>) -> Option<Zxid> {
    if answered.is_some_and(|(.., answer)| *answer == Err(code::SESSION_EXPIRED)) {
        return None;
    }
    if asked.request.is_write() { asked.zxid } else { answered.map(|(_, zxid, _)| zxid) }
}

fn order(steps: &[Step<'_>]) -> Order {
    let mut answers: Vec<(u64, usize)> =
        (0..steps.len()).filter_map(|i| Some((steps[i].answered_us?, i))).collect();
    answers.sort_unstable();
    let mut order = Order::of(steps.len() + answers.len());
    for (first, pair) in steps.windows(2).enumerate() {
        if pair[0].session == pair[1].session {
            order.put(first, first + 1);
        }
    }
    // Moments: an answer was received, and so were all answers before it.
    for (moment, (_, step)) in answers.iter().enumerate() {
        order.put(*step, steps.len() + moment);
        if moment > 0 {
            order.put(steps.len() + moment - 1, steps.len() + moment);
        }
    }
    for (index, step) in steps.iter().enumerate() {
        let heard = answers.partition_point(|(time_us, _)| *time_us < step.asked.time_us);
        if heard > 0 {
            order.put(steps.len() + heard - 1, index);
        }
    }
    let mut at: BTreeMap<(usize, &[u8]), Vec<Done>> = BTreeMap::new();
    for (index, step) in steps.iter().enumerate() {
        let looks = !step.asked.request.is_write();
        for (service, things) in &step.concerns {
            for thing in things {
                let done = (step.at(*service), looks, index);
                at.entry((*service, thing)).or_default().push(done);
            }
        }
    }
    for mut course in at.into_values() {
        course.sort_unstable();
        put_course(&mut order, &course);
    }
    order
}

/// Adds the order of accesses to one object: changes one after the other, and reads between them.
fn put_course(order: &mut Order, course: &[Done]) {
    let mut change = None;
    let mut looks = Vec::new();
    for (_, is_look, index) in course {
        if let Some(change) = change {
            order.put(change, *index);
        }
        if *is_look {
            looks.push(*index);
        } else {
            looks.drain(..).for_each(|look| order.put(look, *index));
            change = Some(*index);
        }
    }
}
