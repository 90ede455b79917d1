//! Stored keys of sessions: those that a command may name, and its words with stored keys in them.

use crate::gateway::core::Core;
use crate::gateway::errors::without_map;
use adt::command::database::database_of;
use adt::{ArgBuf, Args, CommandSpec, ErrorReply, Flags, Keys};

/// Stored keys that a command may concern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::gateway) enum Reach {
    /// Keys of a database.
    In(u8),
    /// Keys of all databases; the words were looked at when they became stored keys.
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

/// Words of a command with stored keys in the place of names; `None` if they are the same.
/// Keys that are declared for a script stay names, as the client has given them, and so do those of the
/// conditions of a transaction, which may have selected another database by then.
pub(in crate::gateway) fn stored(
    spec: &CommandSpec,
    (core, database): (&Core, u8),
    args: &Args<'_>,
) -> Result<Option<ArgBuf>, ErrorReply> {
    let stays = matches!(spec.keys, Keys::None | Keys::Declared { .. } | Keys::Conditions);
    if !stays && core.config.tags.is_none() {
        return Err(without_map());
    }
    let naming = core.naming(database);
    let plain = Reach::of(spec, naming.database) == Reach::In(0) && naming.keeps(args);
    if stays || plain { Ok(None) } else { naming.words(spec.keys, args).map(Some) }
}
