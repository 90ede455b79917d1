//! What the sessions of a service are to do, as a value, and what came of it: so that another
//! program can do it, which speaks a protocol that this one does not, and all services are measured
//! by the same code.

use super::args::recipe;
use super::client::{exists, get, list};
use super::generator::{Load, Outcome, run as generate};
use super::nodes::Nodes;
use super::operations::{Timed, each, watched};
use super::recipes::{create, delete, make};
use super::znodes::Znodes;
use model::operation::Operation;
use serde::{Deserialize, Serialize};
use std::io;
use wire::jute::{Ask, Change, Lasts, Mode, Write};

/// Operations whose mean is what a service takes by itself.
const BASE_OPERATIONS: usize = 40;
/// Operations of a pipeline that tells how many it can do at most.
const BASE_PIPELINE: usize = 1_000;
/// Bytes of data in the nodes of creates that are measured.
const CREATE_BYTES: usize = 25;

/// Where [`OPERATIONS`] has the creation of nodes that stay.
pub const CREATE: usize = 0;
/// Where it has their deletion.
pub const DELETE: usize = 4;
/// Where it has the deletion that is watched, and behind it the notice.
const DELETE_WATCHED: usize = 7;

/// The operations of the smoke test, in the order of the published tool, which lists no children.
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

/// Something to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Task {
    /// Writes and reads one by one below a new node, of the first session; and, if that is asked
    /// for, pipelines of both.
    Base {
        /// The node.
        node: String,
        /// Whether there are to be pipelines.
        pipelined: bool,
    },
    /// Creates below a new node, of one session after the other.
    Creates {
        /// The node.
        node: String,
        /// How many each session makes in a round.
        count: usize,
        /// Rounds.
        rounds: u32,
        /// How many are under way at a time.
        outstanding: usize,
    },
    /// A node for good that others will lie below.
    Make {
        /// Its path.
        node: String,
    },
    /// An operation of the smoke test; deletes of ephemeral nodes come with the notifications about
    /// them.
    Operation {
        /// The node below which the nodes lie.
        base: String,
        /// By its place in [`OPERATIONS`].
        operation: usize,
        /// How often.
        count: usize,
        /// How many are under way at a time.
        outstanding: usize,
        /// Bytes of data in a node.
        data: usize,
    },
    /// Sets of the data of some nodes in turn, at the top of the tree.
    Names {
        /// What their paths begin with; there are none of them yet.
        base: String,
        /// How many nodes.
        names: usize,
        /// How many sets.
        count: usize,
        /// How many are under way at a time.
        outstanding: usize,
        /// Bytes of data in a node.
        data: usize,
    },
    /// Requests for a lock.
    Lock {
        /// The way to take it, by name.
        way: String,
        /// The new node below which it lies.
        node: String,
        /// Poll interval.
        poll_ns: u64,
        /// Whether nodes end with their sessions.
        ephemeral: bool,
        /// The requests.
        load: Load,
    },
}

/// What came of a task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Done {
    /// Operations, by what they are.
    Timed(Vec<(usize, Timed)>),
    /// Requests for a lock.
    Lock(Outcome),
}

impl Done {
    /// The operations that were to be done.
    ///
    /// # Errors
    /// It was another task.
    pub fn timed(self) -> io::Result<Vec<(usize, Timed)>> {
        match self {
            Self::Timed(timed) => Ok(timed),
            Self::Lock(_) => Err(io::Error::other("operations were asked for, not a lock")),
        }
    }

    /// What became of the requests for a lock.
    ///
    /// # Errors
    /// It was another task.
    pub fn outcome(self) -> io::Result<Outcome> {
        match self {
            Self::Lock(outcome) => Ok(outcome),
            Self::Timed(_) => Err(io::Error::other("a lock was asked for, not operations")),
        }
    }
}

/// Does it.
///
/// # Errors
/// The service fails, or the task says what nobody can do.
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

/// A write, a read, and pipelines of them, by their places in this list.
fn base(nodes: &mut impl Nodes, node: &str, pipelined: bool) -> io::Result<Vec<(usize, Timed)>> {
    make(nodes, node)?;
    let child = |number: usize| create(&format!("{node}/{number}"), b"", Mode::default());
    let more = |number: usize| create(&format!("{node}/m{number}"), b"", Mode::default());
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
                create(&format!("{node}/{round}-{session}-{number}"), &data, Mode::default())
            };
            timed.add(each(nodes, session, count, outstanding, child)?);
        }
    }
    Ok(timed)
}

/// Writing a node's data, whatever its version.
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
    let ephemeral = Mode { lasts: Lasts::Session, sequential: false };
    let own = |bytes: &[u8]| {
        let name = bytes.rsplit(|byte| *byte == b'/').next()?;
        std::str::from_utf8(name).ok()?.parse().ok()
    };
    let ask: Box<dyn Fn(usize) -> Ask + '_> = match operation {
        CREATE => Box::new(|n| create(&path(n), data, Mode::default())),
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
