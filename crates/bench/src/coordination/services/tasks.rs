//! Work for the sessions of a service, as a value, and its result: so that another program, which
//! speaks a protocol that this one does not, can do it, and all services are measured by the same
//! code.

use super::client::{exists, get, list};
use crate::coordination::args::recipe;
use crate::coordination::generator::{Load, Outcome, run as generate};
use crate::coordination::operations::{Timed, each, watched};
use crate::coordination::recipes::nodes::Nodes;
use crate::coordination::recipes::znodes::Znodes;
use crate::coordination::recipes::{create, delete, make};
use model::operation::Operation;
use serde::{Deserialize, Serialize};
use std::io;
use wire::jute::{Ask, Change, CreateMode, Lasts, Write};

/// Operations whose mean is the base time of a service.
const BASE_OPERATIONS: usize = 40;
/// Operations of a pipeline that measures the capacity of a service.
const BASE_PIPELINE: usize = 1_000;
/// Bytes of data in the nodes of creates that are measured.
const CREATE_BYTES: usize = 25;

/// Index in [`OPERATIONS`] of the creation of persistent nodes.
pub const CREATE: usize = 0;
/// Index in [`OPERATIONS`] of their deletion.
pub const DELETE: usize = 4;
/// Index in [`OPERATIONS`] of the watched deletion, which its notification follows.
const DELETE_WATCHED: usize = 7;

/// Operations of the smoke test, in the order of the published tool, which lists no children.
pub const OPERATIONS: [(&str, Operation); 9] = [
    ("create-permanent", Operation::Write),
    ("set", Operation::Write),
    ("get", Operation::Read),
    ("children", Operation::Read),
    ("delete", Operation::Write),
    ("create-ephemeral", Operation::Write),
    ("exists-watch", Operation::Read),
    ("delete-ephemeral", Operation::Write),
    ("watch-notification", Operation::Write),
];

/// A unit of work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Task {
    /// Sequential writes and reads below a new node, in the first session; and optionally pipelines
    /// of both.
    Base {
        /// The node.
        node: String,
        /// Whether pipelines are measured.
        pipelined: bool,
    },
    /// Creates below a new node, in one session after the other.
    Creates {
        /// The node.
        node: String,
        /// Number of creates per session and round.
        count: usize,
        /// Number of rounds.
        rounds: u32,
        /// Number of concurrent operations.
        outstanding: usize,
    },
    /// Creation of a persistent node that will be the parent of others.
    Make {
        /// Path of the node.
        node: String,
    },
    /// An operation of the smoke test; deletes of ephemeral nodes include the notifications of
    /// them.
    Operation {
        /// Parent of the nodes.
        base: String,
        /// Index in [`OPERATIONS`].
        operation: usize,
        /// Number of operations.
        count: usize,
        /// Number of concurrent operations.
        outstanding: usize,
        /// Bytes of data in a node.
        data: usize,
    },
    /// Sets of the data of several top-level nodes in turn.
    Names {
        /// Prefix of their paths; none of them exists yet.
        base: String,
        /// Number of nodes.
        names: usize,
        /// Number of sets.
        count: usize,
        /// Number of concurrent operations.
        outstanding: usize,
        /// Bytes of data in a node.
        data: usize,
    },
    /// Requests for a lock.
    Lock {
        /// Name of the algorithm.
        way: String,
        /// New node below which the lock is.
        node: String,
        /// Poll interval.
        poll_ns: u64,
        /// Whether nodes end with their sessions.
        ephemeral: bool,
        /// The requests.
        load: Load,
    },
}

/// Result of a task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Done {
    /// Times of operations, by kind.
    Timed(Vec<(usize, Timed)>),
    /// Requests for a lock.
    Lock(Outcome),
}

impl Done {
    /// Returns the times of operations.
    ///
    /// # Errors
    /// The task was of another kind.
    pub fn timed(self) -> io::Result<Vec<(usize, Timed)>> {
        match self {
            Self::Timed(timed) => Ok(timed),
            Self::Lock(_) => {
                Err(io::Error::other("the task is about a lock, not about operations"))
            }
        }
    }

    /// Returns the outcome of the requests for a lock.
    ///
    /// # Errors
    /// The task was of another kind.
    pub fn outcome(self) -> io::Result<Outcome> {
        match self {
            Self::Lock(outcome) => Ok(outcome),
            Self::Timed(_) => {
                Err(io::Error::other("the task is about operations, not about a lock"))
            }
        }
    }
}

/// Carries out the task.
///
/// # Errors
/// The service fails, or the task is impossible.
pub fn carry_out(nodes: &mut impl Nodes, task: &Task) -> io::Result<Done> {
    match task {
        Task::Base { node, pipelined } => base(nodes, node, *pipelined).map(Done::Timed),
        Task::Creates { node, count, rounds, outstanding } => {
            let timed = creates(nodes, node, *count, *rounds, *outstanding)?;
            Ok(Done::Timed(vec![(0, timed)]))
        }
        Task::Make { node } => make(nodes, node).map(|()| Done::Timed(Vec::new())),
        Task::Operation { base, operation, count, outstanding, data } => {
            one_operation(nodes, base, *operation, (*count, *outstanding), &vec![b'x'; *data])
                .map(Done::Timed)
        }
        Task::Names { base, names, count, outstanding, data } => {
            let path = |number: usize| format!("{base}-{number}");
            for number in 0..*names {
                make(nodes, &path(number))?;
            }
            let data = vec![b'x'; *data];
            let timed = each(nodes, 0, *count, *outstanding, |n| set(&path(n % names), &data))?;
            Ok(Done::Timed(vec![(0, timed)]))
        }
        Task::Lock { way, node, poll_ns, ephemeral, load } => {
            let algorithm = recipe(way).filter(|algorithm| algorithm.needs_nodes_only());
            let unknown = || io::Error::other(format!("{way} is no recipe on nodes"));
            let algorithm = algorithm.ok_or_else(unknown)?;
            let mut locker = Znodes::new(nodes, algorithm, node, *poll_ns, *ephemeral)?;
            generate(&mut locker, load).map(Done::Lock)
        }
    }
}

/// Measures a write, a read, and pipelines of them, by their places in this list.
fn base(nodes: &mut impl Nodes, node: &str, pipelined: bool) -> io::Result<Vec<(usize, Timed)>> {
    make(nodes, node)?;
    let child = |number: usize| create(&format!("{node}/{number}"), b"", CreateMode::default());
    let more = |number: usize| create(&format!("{node}/m{number}"), b"", CreateMode::default());
    let read = |_| get(node, false);
    let mut all = vec![
        (0, each(nodes, 0, BASE_OPERATIONS, 1, child)?),
        (1, each(nodes, 0, BASE_OPERATIONS, 1, read)?),
    ];
    if pipelined {
        all.push((2, each(nodes, 0, BASE_PIPELINE, usize::MAX, more)?));
        all.push((3, each(nodes, 0, BASE_PIPELINE, usize::MAX, read)?));
    }
    Ok(all)
}

fn creates(
    nodes: &mut impl Nodes,
    node: &str,
    count: usize,
    rounds: u32,
    outstanding: usize,
) -> io::Result<Timed> {
    make(nodes, node)?;
    let data = [b'x'; CREATE_BYTES];
    let mut timed = Timed::default();
    for round in 0..rounds {
        for session in 0..nodes.sessions() {
            let child = |number: usize| {
                create(&format!("{node}/{round}-{session}-{number}"), &data, CreateMode::default())
            };
            timed.add(each(nodes, session, count, outstanding, child)?);
        }
    }
    Ok(timed)
}

/// Request to write a node's data, whatever its version.
pub fn set(path: &str, data: &[u8]) -> Ask {
    Ask::Write(Write::Change(Change::SetData {
        path: path.into(),
        data: Some(data.into()),
        version: -1,
    }))
}

fn one_operation(
    nodes: &mut impl Nodes,
    base: &str,
    operation: usize,
    (count, outstanding): (usize, usize),
    data: &[u8],
) -> io::Result<Vec<(usize, Timed)>> {
    let path = |number: usize| format!("{base}/{number}");
    let ephemeral = CreateMode { lasts: Lasts::Session, sequential: false };
    let own = |bytes: &[u8]| {
        let name = bytes.rsplit(|byte| *byte == b'/').next()?;
        std::str::from_utf8(name).ok()?.parse().ok()
    };
    let ask: Box<dyn Fn(usize) -> Ask + '_> = match operation {
        CREATE => Box::new(|n| create(&path(n), data, CreateMode::default())),
        1 => Box::new(|n| set(&path(n), data)),
        2 => Box::new(|n| get(&path(n), false)),
        3 => Box::new(|n| list(&path(n))),
        DELETE => Box::new(|n| delete(&path(n))),
        5 => Box::new(|n| create(&path(n), data, ephemeral)),
        6 => Box::new(|n| exists(&path(n), true)),
        _ => {
            let ask = |n| delete(&path(n));
            let (deleted, noticed) = watched(nodes, 0, count, outstanding, ask, own)?;
            return Ok(vec![(DELETE_WATCHED, deleted), (DELETE_WATCHED + 1, noticed)]);
        }
    };
    Ok(vec![(operation, each(nodes, 0, count, outstanding, ask)?)])
}
