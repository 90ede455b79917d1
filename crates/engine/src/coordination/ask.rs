//! What gateways and the shard that has the tree say to each other.

use super::acl::Rules;
use super::quota::{self, Part};
use super::request::{
    Code, Event, Identity, Password, Read, Reply, SessionId, Watch, WatcherType, Write, Zxid,
};
use super::service::Command;
use super::spread::Step;
use crate::ids::StreamId;
use adt::Blob;

/// What a gateway asks.
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    /// A change. The session must be at this gateway, but for [`Write::Open`], which brings it there.
    Write(Command),
    /// The client of a session has come to this gateway with its password: the session is here from now
    /// on, watches nothing, and nobody else may use it. Answer: [`Reply::Number`], its timeout in
    /// milliseconds, or [`Reply::Joined`].
    Resume {
        /// Which.
        session: SessionId,
        /// What proves that it is its client.
        password: Password,
    },
    /// The connection of a session has ended, and what it watches with it. No answer.
    Leave(SessionId),
    /// Something of a session that is at this gateway.
    Of(SessionId, OfSession),
}

/// What concerns a session and changes nothing but what it watches.
#[derive(Clone, Debug, PartialEq)]
pub enum OfSession {
    /// Its client is there. Answer: [`Reply::Done`].
    Ping,
    /// A read. Whoever asks to watch does so if the read finds what can be watched: the node of any, or
    /// that there is none for [`Read::Exists`].
    Read {
        /// Who the client is, as far as was proved.
        identities: Vec<Identity>,
        /// What is read.
        read: Read,
        /// Whether it is watched as well.
        watch: bool,
    },
    /// Watches these. What has happened to them since a change is told at once instead. Answer:
    /// [`Reply::Done`].
    Watch {
        /// Since which change.
        since: Zxid,
        /// What, and how.
        watches: Vec<(Blob, Watch)>,
    },
    /// Watches something no more. Answer: [`Reply::Done`], or [`Code::NoWatcher`].
    Unwatch {
        /// Where.
        path: Blob,
        /// Which watches.
        which: WatcherType,
    },
    /// Whether it watches something. Answer: [`Reply::Done`], or [`Code::NoWatcher`].
    Watches {
        /// Where.
        path: Blob,
        /// Which watches.
        which: WatcherType,
    },
}

impl Ask {
    /// Whether it is answered from the leader's state and not from the log.
    pub fn only_looks(&self) -> bool {
        !matches!(self, Self::Write(_))
    }

    /// Whether it prepares a `multi` over several shards.
    pub fn prepares(&self) -> bool {
        matches!(self, Self::Write(Command { write: Write::Spread(Step::Prepare { .. }), .. }))
    }

    /// What it shows or changes something of: the path, and whether everything below counts.
    pub fn paths(&self) -> Vec<(&[u8], bool)> {
        match self {
            Self::Write(command) => {
                command.write.changes().iter().map(|c| (&c.path()[..], false)).collect()
            }
            Self::Of(_, OfSession::Read { read, .. }) => paths_of_read(read),
            Self::Of(_, OfSession::Watch { watches, .. }) => {
                watches.iter().map(|(path, _)| (&path[..], false)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The session that it is about; none yet for one that begins.
    pub fn session(&self) -> Option<SessionId> {
        match self {
            Self::Write(Command { write: Write::Open { .. }, .. }) => None,
            Self::Write(Command { write: Write::Spread(step), .. })
                if !step.is_asked_by_session() =>
            {
                None
            }
            Self::Write(Command { session, .. })
            | Self::Resume { session, .. }
            | Self::Leave(session)
            | Self::Of(session, _) => Some(*session),
        }
    }
}

fn paths_of_read(read: &Read) -> Vec<(&[u8], bool)> {
    match read {
        // What a session has itself ends with it.
        Read::Ephemerals(_) => Vec::new(),
        Read::Descendants(path) => vec![(path, true)],
        // It tells how much there is below another one.
        Read::Data(path) => match quota::part(path) {
            Some((of, Part::Stats)) => vec![(path, false), (of, true)],
            _ => vec![(path, false)],
        },
        Read::Multi(reads) => reads.iter().flat_map(paths_of_read).collect(),
        read => read.path().map(|path| (&path[..], false)).into_iter().collect(),
    }
}

/// What the shard answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Answered {
    /// The reply.
    pub reply: Result<Reply, Code>,
    /// The number of the change that it is about, or of the last one before it.
    pub zxid: Zxid,
    /// How many notices ([`Told`]) were sent to the session since it came to its gateway; of steps of a joint
    /// `multi`, more than can be if it is not at the one that has asked. A gateway that has had fewer has
    /// lost some, and must not give the answer to the client.
    pub told: u64,
}

/// What a shard tells the gateway of a session without having been asked.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// Something that it watches has happened, at this change. It must not hear of it unless these rules
    /// let it read.
    Happened(Event, Zxid, Rules),
    /// A request that it has sent ahead, as a unit of a stream, is carried out.
    Carried {
        /// The stream.
        stream: StreamId,
        /// The number of the unit.
        seq: u32,
        /// The answer.
        answered: Box<Answered>,
    },
    /// It is at another gateway now.
    Moved,
    /// It has ended.
    Ended,
}
