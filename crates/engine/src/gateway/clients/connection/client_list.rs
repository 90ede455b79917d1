//! Lines of `CLIENT LIST` and `CLIENT INFO`, and the filters of `CLIENT LIST` and `CLIENT KILL`.
//!
//! Field names and their order are those of Redis 7.2; fields whose quantity does not exist here
//! (file descriptor, query buffer) are present with a neutral value, since programs look for them.

use crate::gateway::api::ClientFilter;
use crate::gateway::clients::pubsub::Subscribed;
use adt::{Args, ErrorReply};
use std::fmt;

/// Content of a line about a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientLine {
    /// Number of the client.
    pub id: u64,
    /// Address of the client.
    pub address: String,
    /// Address that the client is connected to.
    pub local_address: String,
    /// Name of the client; empty if it has none.
    pub name: String,
    /// Seconds since it connected.
    pub age_s: u64,
    /// Seconds since its last command.
    pub idle_s: u64,
    /// Database that the client has selected.
    pub database: u8,
    /// Numbers of channels and patterns that the client is subscribed to.
    pub subscribed: Subscribed,
    /// Number of commands queued since `MULTI`; `None` outside of a transaction.
    pub queued: Option<usize>,
    /// Number of keys that the client watches.
    pub watched: usize,
    /// Whether the client waits in a blocking command.
    pub blocked: bool,
    /// Whether the client is in an interactive transaction.
    pub in_transaction: bool,
    /// Bytes of commands that the transaction holds.
    pub transaction_bytes: usize,
    /// Bytes of replies that wait to be sent.
    pub output_bytes: usize,
    /// Last command, in lower case, with a subcommand after `|`; empty if there was none.
    pub command: String,
    /// User, empty before authentication.
    pub user: String,
    /// RESP version.
    pub protocol: u8,
    /// Client that the messages for its cache are redirected to, 0 for none; `None` without a cache.
    pub redirection: Option<u64>,
    /// Whether that client is gone, and whether prefixes are tracked.
    pub tracking: (bool, bool),
    /// Name of the client's library, as the client reports it.
    pub lib_name: String,
    /// Version of that library.
    pub lib_ver: String,
}

impl ClientLine {
    /// Kind that `TYPE` filters by: `normal` or `pubsub`.
    pub fn kind(&self) -> &'static str {
        if self.subscribed.all() > 0 { "pubsub" } else { "normal" }
    }

    /// Whether the filter lets the client through.
    pub fn passes(&self, filter: &ClientFilter) -> bool {
        let is = |wanted: &Option<String>, have: &str| wanted.as_ref().is_none_or(|w| w == have);
        (filter.ids.is_empty() || filter.ids.contains(&self.id))
            && is(&filter.address, &self.address)
            && is(&filter.local_address, &self.local_address)
            && is(&filter.user, &self.user)
            && is(&filter.kind, self.kind())
            && filter.age_s_min.is_none_or(|age| self.age_s >= age)
            && filter.except != Some(self.id)
    }

    fn flags(&self) -> String {
        let flags = [
            ('P', self.subscribed.all() > 0),
            ('x', self.queued.is_some()),
            ('T', self.in_transaction),
            ('b', self.blocked),
            ('t', self.redirection.is_some()),
            ('R', self.tracking.0),
            ('B', self.tracking.1),
        ];
        let set: String = flags.iter().filter(|f| f.1).map(|f| f.0).collect();
        if set.is_empty() { "N".to_owned() } else { set }
    }
}

/// Writes the line without its end.
impl fmt::Display for ClientLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, address, local_address, name, age_s, idle_s, database, .. } = self;
        write!(f, "id={id} addr={address} laddr={local_address} fd=0 name={name} ")?;
        write!(f, "age={age_s} idle={idle_s} flags={} db={database} ", self.flags())?;
        let Subscribed { channels, patterns, sharded } = self.subscribed;
        write!(f, "sub={channels} psub={patterns} ssub={sharded} ")?;
        let queued = self.queued.map_or(-1, |n| n as i64);
        write!(f, "multi={queued} watch={} qbuf=0 qbuf-free=0 argv-mem=0 ", self.watched)?;
        write!(f, "multi-mem={} rbs=0 rbp=0 obl=0 ", self.transaction_bytes)?;
        let list = usize::from(self.output_bytes > 0);
        let held = self.transaction_bytes + self.output_bytes;
        write!(f, "oll={list} omem={} tot-mem={held} events=r ", self.output_bytes)?;
        let command = if self.command.is_empty() { "NULL" } else { &self.command };
        write!(f, "cmd={command} user={} ", self.user)?;
        let redirection = self.redirection.map_or(-1, |client| client as i64);
        write!(f, "redir={redirection} resp={} ", self.protocol)?;
        write!(f, "lib-name={} lib-ver={}", self.lib_name, self.lib_ver)
    }
}

/// Text of `CLIENT LIST` from the lines of all gateways, in the order of the numbers.
pub fn text(mut lines: Vec<(u64, String)>) -> String {
    lines.sort();
    lines.into_iter().map(|(_, line)| line + "\n").collect()
}

/// Parses `CLIENT LIST [TYPE type] [ID id [id ...]]`.
pub fn parse_list(args: &Args<'_>) -> Result<ClientFilter, ErrorReply> {
    let mut filter = ClientFilter::default();
    if args.len() == 4 && args.is(2, "TYPE") {
        filter.kind = Some(kind(args.get(3).unwrap_or_default())?);
    } else if args.len() > 3 && args.is(2, "ID") {
        for i in 3..args.len() {
            let id = args.int(i).ok().and_then(|id| u64::try_from(id).ok()).filter(|&id| id > 0);
            filter.ids.push(id.ok_or_else(|| ErrorReply::err("Invalid client ID"))?);
        }
    } else if args.len() > 2 {
        return Err(ErrorReply::syntax());
    }
    Ok(filter)
}

/// Parsed `CLIENT KILL`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kill {
    /// Filter of the clients to kill.
    pub filter: ClientFilter,
    /// Whether this is the old form `CLIENT KILL address`, which replies `OK`, or [`no_such_client`] if no
    /// client matched. The new form replies the number of killed clients.
    pub by_address: bool,
}

/// Error of the old form of `CLIENT KILL` if no client matched.
pub fn no_such_client() -> ErrorReply {
    ErrorReply::err("No such client")
}

/// Parses `CLIENT KILL address` and `CLIENT KILL filter value [filter value ...]`, sent by client
/// number `own`.
pub fn parse_kill(args: &Args<'_>, own: u64) -> Result<Kill, ErrorReply> {
    let text = |i: usize| String::from_utf8_lossy(args.get(i).unwrap_or_default()).into_owned();
    let mut filter = ClientFilter::default();
    if args.len() == 3 {
        filter.address = Some(text(2));
        return Ok(Kill { filter, by_address: true });
    }
    if args.len() < 4 || !args.len().is_multiple_of(2) {
        return Err(ErrorReply::syntax());
    }
    let mut skip_me = true;
    for i in (2..args.len()).step_by(2) {
        let value = i + 1;
        match () {
            () if args.is(i, "ID") => {
                let id = args.int(value).ok().and_then(|id| u64::try_from(id).ok());
                let id = id.filter(|&id| id > 0);
                let error = || ErrorReply::err("client-id should be greater than 0");
                filter.ids = vec![id.ok_or_else(error)?];
            }
            () if args.is(i, "ADDR") => filter.address = Some(text(value)),
            () if args.is(i, "LADDR") => filter.local_address = Some(text(value)),
            () if args.is(i, "TYPE") => {
                filter.kind = Some(kind(args.get(value).unwrap_or_default())?);
            }
            () if args.is(i, "USER") => filter.user = Some(text(value)),
            () if args.is(i, "SKIPME") => {
                skip_me = match () {
                    () if args.is(value, "yes") => true,
                    () if args.is(value, "no") => false,
                    () => return Err(ErrorReply::syntax()),
                };
            }
            () if args.is(i, "MAXAGE") => {
                let age = args
                    .int(value)
                    .map_err(|_| ErrorReply::err("maxage is not an integer or out of range"))?;
                let age = u64::try_from(age).ok().filter(|&age| age > 0);
                let error = || ErrorReply::err("maxage should be greater than 0");
                filter.age_s_min = Some(age.ok_or_else(error)?);
            }
            () => return Err(ErrorReply::syntax()),
        }
    }
    filter.except = skip_me.then_some(own);
    Ok(Kill { filter, by_address: false })
}

/// Client type. The kinds of Redis that do not exist here are known and match no client.
fn kind(word: &[u8]) -> Result<String, ErrorReply> {
    let lower = word.to_ascii_lowercase();
    match lower.as_slice() {
        b"normal" | b"pubsub" | b"master" | b"replica" => {
            Ok(String::from_utf8_lossy(&lower).into_owned())
        }
        b"slave" => Ok("replica".to_owned()),
        _ => Err(ErrorReply::err(format!("Unknown client type '{}'", word.escape_ascii()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use adt::ArgBuf;

    fn kill(line: &str) -> Result<Kill, String> {
        let words = ArgBuf::of(line.split(' '));
        parse_kill(&words.args(), 9).map_err(|e| e.to_string())
    }

    fn list(line: &str) -> Result<ClientFilter, String> {
        parse_list(&ArgBuf::of(line.split(' ')).args()).map_err(|e| e.to_string())
    }

    #[test]
    fn a_line_has_the_fields_that_programs_look_for() {
        let line = ClientLine {
            id: 3,
            address: "127.0.0.1:50000".to_owned(),
            local_address: "127.0.0.1:6379".to_owned(),
            name: "web".to_owned(),
            age_s: 5,
            user: "default".to_owned(),
            protocol: 3,
            command: "client|list".to_owned(),
            ..ClientLine::default()
        };
        assert_eq!(
            line.to_string(),
            "id=3 addr=127.0.0.1:50000 laddr=127.0.0.1:6379 fd=0 name=web age=5 idle=0 flags=N \
             db=0 sub=0 psub=0 ssub=0 multi=-1 watch=0 qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 \
             rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem=0 events=r cmd=client|list user=default \
             redir=-1 resp=3 lib-name= lib-ver="
        );
        let subscribed = Subscribed { channels: 1, ..Subscribed::default() };
        let line = ClientLine { subscribed, queued: Some(2), blocked: true, ..line };
        assert!(line.to_string().contains("flags=Pxb db=0 sub=1"));
        assert!(line.to_string().contains("multi=2"));
        assert_eq!(text(vec![(2, "b".to_owned()), (1, "a".to_owned())]), "a\nb\n");
    }

    #[test]
    fn filters_of_kill() {
        assert_eq!(kill("client kill 1.2.3.4:5").unwrap().filter.address.unwrap(), "1.2.3.4:5");
        let parsed = kill("client kill ID 3 laddr h:1 TYPE PubSub USER ann MAXAGE 10").unwrap();
        assert!(!parsed.by_address);
        assert_eq!(
            parsed.filter,
            ClientFilter {
                ids: vec![3],
                address: None,
                local_address: Some("h:1".to_owned()),
                user: Some("ann".to_owned()),
                kind: Some("pubsub".to_owned()),
                age_s_min: Some(10),
                except: Some(9),
            }
        );
        assert_eq!(kill("client kill addr h:1 SKIPME no").unwrap().filter.except, None);
        for (line, error) in [
            ("client kill", "ERR syntax error"),
            ("client kill ID 1 ADDR", "ERR syntax error"),
            ("client kill nonsense 1", "ERR syntax error"),
            ("client kill ID 1 SKIPME maybe", "ERR syntax error"),
            ("client kill ID 0", "ERR client-id should be greater than 0"),
            ("client kill ID x", "ERR client-id should be greater than 0"),
            ("client kill TYPE x", "ERR Unknown client type 'x'"),
            ("client kill MAXAGE x", "ERR maxage is not an integer or out of range"),
            ("client kill MAXAGE -1", "ERR maxage should be greater than 0"),
        ] {
            assert_eq!(kill(line).unwrap_err(), error, "{line}");
        }
    }

    #[test]
    fn filters_of_list() {
        assert_eq!(list("client list"), Ok(ClientFilter::default()));
        assert_eq!(list("client list ID 4 5").unwrap().ids, [4, 5]);
        assert_eq!(list("client list TYPE slave").unwrap().kind.unwrap(), "replica");
        assert_eq!(list("client list ID 0").unwrap_err(), "ERR Invalid client ID");
        assert_eq!(list("client list ID").unwrap_err(), "ERR syntax error");
        assert_eq!(list("client list x y").unwrap_err(), "ERR syntax error");
    }

    #[test]
    fn everything_that_is_set_must_match() {
        let line = ClientLine { id: 3, user: "ann".to_owned(), age_s: 5, ..ClientLine::default() };
        let filter = ClientFilter::default();
        assert!(line.passes(&filter));
        assert!(line.passes(&ClientFilter { ids: vec![1, 3], ..filter.clone() }));
        assert!(!line.passes(&ClientFilter { ids: vec![1], ..filter.clone() }));
        assert!(!line.passes(&ClientFilter { except: Some(3), ..filter.clone() }));
        assert!(!line.passes(&ClientFilter { kind: Some("pubsub".to_owned()), ..filter.clone() }));
        assert!(line.passes(&ClientFilter { age_s_min: Some(5), ..filter.clone() }));
        assert!(!line.passes(&ClientFilter { age_s_min: Some(6), ..filter.clone() }));
        let user = Some("ann".to_owned());
        assert!(line.passes(&ClientFilter { user: user.clone(), ..filter.clone() }));
        assert!(!line.passes(&ClientFilter { user, ids: vec![4], ..filter }));
    }
}
