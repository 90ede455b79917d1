//! Databases of sessions: the keys that a command may name, and its words with stored keys in them.

use crate::gateway::scripts::commands::runs_script;
use adt::command::database::{database_of, words_in};
use adt::{ArgBuf, Args, CommandSpec, ErrorReply, Flags, Keys};

/// Stored keys that a command may concern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::gateway) enum Reach {
    /// Those of a database.
    In(u8),
    /// Those of all databases; the words were looked at when they became stored keys.
    Across,
}

impl Reach {
    /// Reach of a command in a database.
    #[inline]
    pub fn of(spec: &CommandSpec, database: u8) -> Self {
        if spec.flags.has(Flags::DATABASES) { Self::Across } else { Self::In(database) }
    }

    /// Whether a stored key is within reach.
    #[inline]
    pub fn has(self, key: &[u8]) -> bool {
        match self {
            Self::In(database) => database_of(key) == Some(database),
            Self::Across => database_of(key).is_some(),
        }
    }
}

/// Words of a command in a database, with stored keys in the place of names; `None` if they are the same.
/// A script gets its keys as the client has named them.
pub(in crate::gateway) fn stored(
    spec: &CommandSpec,
    database: u8,
    args: &Args<'_>,
) -> Result<Option<ArgBuf>, ErrorReply> {
    if Reach::of(spec, database) == Reach::In(0) || spec.keys == Keys::None || runs_script(spec) {
        return Ok(None);
    }
    words_in(database, spec.keys, args).map(Some)
}
