//! Changes of users in the store, as replies of programs and as news for gateways.

use adt::{Blob, ErrorReply, Reply};

/// Users of the store that have changed, or were looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct UserChange {
    /// Version of the users in the store.
    pub version: u64,
    /// Rules by the names of users; none for a user that does not exist.
    pub lines: Vec<(Blob, Option<Blob>)>,
}

impl UserChange {
    /// The change and the client's reply, as the reply of a program.
    pub(super) fn into_reply(self, reply: Reply) -> Reply {
        let line = |line: Option<Blob>| line.map_or(Reply::Nil, Reply::Bulk);
        let lines = self.lines.into_iter().map(|(name, rules)| (Reply::Bulk(name), line(rules)));
        Reply::Array(vec![Reply::Int(self.version as i64), reply, Reply::Map(lines.collect())])
    }

    /// Reads the reply of a program.
    pub(super) fn of_reply(reply: Reply) -> Result<(Self, Reply), ErrorReply> {
        let parts = match reply {
            Reply::Array(parts) => <[Reply; 3]>::try_from(parts).ok(),
            Reply::Error(error) => return Err(error),
            _ => None,
        };
        let Some([Reply::Int(version), reply, Reply::Map(pairs)]) = parts else {
            return Err(ErrorReply::err("the users in the store cannot be read"));
        };
        let line = |(name, line)| match (name, line) {
            (Reply::Bulk(name), Reply::Bulk(line)) => Some((name, Some(line))),
            (Reply::Bulk(name), _) => Some((name, None)),
            _ => None,
        };
        let lines = pairs.into_iter().filter_map(line).collect();
        Ok((Self { version: version as u64, lines }, reply))
    }
}
