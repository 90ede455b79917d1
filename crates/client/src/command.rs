//! Encoding of commands, and conversion of replies.

use crate::error::{Error, Result};
use wire::resp::ClientReply;

/// Commands on no key whose reply may take as long as they say.
const WAITING: [&str; 2] = ["WAIT", "WAITAOF"];

/// A command: words that are encoded as they are added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    words: usize,
    body: Vec<u8>,
    writes: bool,
    waits: bool,
}

impl Command {
    /// A command by its name.
    pub fn new(name: &str) -> Self {
        let spec = adt::record::command(name.to_ascii_lowercase().as_bytes());
        // A command that this client does not know is treated as a write, which is always safe.
        let writes = spec.is_none_or(|spec| !spec.flags.has(adt::Flags::READ));
        let waits = spec.map_or_else(
            || WAITING.iter().any(|waiting| name.eq_ignore_ascii_case(waiting)),
            |spec| spec.flags.has(adt::Flags::BLOCKING),
        );
        Self { words: 0, body: Vec::new(), writes, waits }.arg(name)
    }

    /// The command that assigns a request number to the commands behind it.
    pub(crate) fn request(name: &str, number: u64) -> Self {
        Self::new("CLIENT").arg("REQUEST").arg(name).arg(number)
    }

    /// A command from its words, the name first.
    ///
    /// # Errors
    /// There are no words.
    pub fn from_words<W: ToArg>(words: &[W]) -> Result<Self> {
        let mut name = Vec::new();
        words.first().ok_or_else(|| Error::Refused("ERR empty command".into()))?.write(&mut name);
        let command = Self::new(&String::from_utf8_lossy(&name));
        Ok(words[1..].iter().fold(command, |command, word| command.arg(word)))
    }

    /// Adds a word.
    #[must_use]
    pub fn arg(mut self, word: impl ToArg) -> Self {
        // The length precedes the word: write the word to a separate buffer unless its bytes are at
        // hand.
        let mut bytes = Vec::new();
        word.write(&mut bytes);
        self.body.push(b'$');
        self.body.extend_from_slice(bytes.len().to_string().as_bytes());
        self.body.extend_from_slice(b"\r\n");
        self.body.extend_from_slice(&bytes);
        self.body.extend_from_slice(b"\r\n");
        self.words += 1;
        self
    }

    /// Adds words.
    #[must_use]
    pub fn args<W: ToArg>(self, words: impl IntoIterator<Item = W>) -> Self {
        words.into_iter().fold(self, |command, word| command.arg(word))
    }

    /// Puts the words of `prefix` before this command's own.
    pub(crate) fn behind(self, prefix: Self) -> Self {
        let body = [prefix.body, self.body].concat();
        Self { words: prefix.words + self.words, body, ..self }
    }

    /// The words, the name first.
    pub(crate) fn words(&self) -> Vec<&[u8]> {
        let mut rest = self.body.as_slice();
        let mut word = || {
            let end = rest.iter().position(|byte| *byte == b'\r').unwrap_or(rest.len());
            let len =
                rest[1..end].iter().fold(0, |len, digit| len * 10 + usize::from(digit - b'0'));
            let (word, behind) = rest[end + 2..].split_at(len);
            rest = &behind[2..];
            word
        };
        (0..self.words).map(|_| word()).collect()
    }

    /// Whether the command may change data.
    pub fn writes(&self) -> bool {
        self.writes
    }

    /// Whether the reply may take as long as the command says.
    pub(crate) fn waits(&self) -> bool {
        self.waits
    }

    /// Appends the bytes to send.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(b'*');
        out.extend_from_slice(self.words.to_string().as_bytes());
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(&self.body);
    }
}

/// Types that can be a word of a command: a key, a member, a number.
pub trait ToArg {
    /// Appends the bytes of the word.
    fn write(&self, out: &mut Vec<u8>);
}

impl<T: ToArg + ?Sized> ToArg for &T {
    fn write(&self, out: &mut Vec<u8>) {
        (**self).write(out);
    }
}

macro_rules! bytes_are_words {
    ($($type:ty),*) => {
        $(impl ToArg for $type {
            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(AsRef::<[u8]>::as_ref(self));
            }
        })*
    };
}

bytes_are_words!(str, String, [u8], Vec<u8>);

impl<const N: usize> ToArg for [u8; N] {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
}

macro_rules! numbers_are_words {
    ($($type:ty),*) => {
        $(impl ToArg for $type {
            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(self.to_string().as_bytes());
            }
        })*
    };
}

numbers_are_words!(i32, i64, u16, u32, u64, usize, f64);

/// Types that a reply can be turned into.
pub trait FromReply: Sized {
    /// Turns a reply, which must not be an error, into the value.
    ///
    /// # Errors
    /// [`Error::Type`] if the reply is of another kind.
    fn from_reply(reply: ClientReply) -> Result<Self>;
}

impl FromReply for ClientReply {
    fn from_reply(reply: ClientReply) -> Result<Self> {
        Ok(reply)
    }
}

/// Accepts every reply.
impl FromReply for () {
    fn from_reply(_: ClientReply) -> Result<Self> {
        Ok(())
    }
}

impl FromReply for Vec<u8> {
    fn from_reply(reply: ClientReply) -> Result<Self> {
        match reply {
            ClientReply::Bulk(bytes) | ClientReply::Status(bytes) => Ok(bytes.to_vec()),
            ClientReply::Int(number) => Ok(number.to_string().into_bytes()),
            ClientReply::Ok => Ok(b"OK".to_vec()),
            other => Err(Error::unexpected("a string", &other)),
        }
    }
}

impl FromReply for String {
    fn from_reply(reply: ClientReply) -> Result<Self> {
        let text = String::from_utf8(Vec::from_reply(reply)?);
        text.map_err(|_| Error::Type { expected: "text", got: "bytes that are no UTF-8".into() })
    }
}

impl FromReply for bool {
    fn from_reply(reply: ClientReply) -> Result<Self> {
        match reply {
            ClientReply::Int(number) => Ok(number != 0),
            ClientReply::Bool(value) => Ok(value),
            ClientReply::Ok => Ok(true),
            ClientReply::Nil => Ok(false),
            other => Err(Error::unexpected("a truth value", &other)),
        }
    }
}

fn parsed<T: std::str::FromStr>(expected: &'static str, reply: &ClientReply) -> Result<T> {
    let text = match reply {
        ClientReply::Bulk(bytes) | ClientReply::Status(bytes) => std::str::from_utf8(bytes).ok(),
        _ => None,
    };
    text.and_then(|text| text.parse().ok()).ok_or_else(|| Error::unexpected(expected, reply))
}

macro_rules! integers_from_replies {
    ($($type:ty),*) => {
        $(impl FromReply for $type {
            fn from_reply(reply: ClientReply) -> Result<Self> {
                match reply {
                    ClientReply::Int(number) => Self::try_from(number)
                        .map_err(|_| Error::unexpected("an integer in range", &reply)),
                    other => parsed("an integer", &other),
                }
            }
        })*
    };
}

integers_from_replies!(i32, i64, u16, u32, u64, usize);

impl FromReply for f64 {
    fn from_reply(reply: ClientReply) -> Result<Self> {
        match reply {
            ClientReply::Double(number) => Ok(number),
            ClientReply::Int(number) => Ok(number as f64),
            other => parsed("a number", &other),
        }
    }
}

impl<T: FromReply> FromReply for Option<T> {
    fn from_reply(reply: ClientReply) -> Result<Self> {
        match reply {
            ClientReply::Nil => Ok(None),
            reply => T::from_reply(reply).map(Some),
        }
    }
}

fn items(reply: ClientReply) -> Result<Vec<ClientReply>> {
    match reply {
        ClientReply::Array(items) | ClientReply::Set(items) => Ok(items),
        ClientReply::Map(pairs) => Ok(pairs.into_iter().flat_map(|(k, v)| [k, v]).collect()),
        ClientReply::Nil => Ok(Vec::new()),
        other => Err(Error::unexpected("an array", &other)),
    }
}

/// Lists whose elements are single replies. `u8` is left out so that `Vec<u8>` is a string.
macro_rules! lists_from_replies {
    ($($type:ty),*) => {
        $(impl FromReply for Vec<$type> {
            fn from_reply(reply: ClientReply) -> Result<Self> {
                items(reply)?.into_iter().map(FromReply::from_reply).collect()
            }
        })*
    };
}

lists_from_replies!(
    ClientReply,
    String,
    Vec<u8>,
    i64,
    u64,
    f64,
    bool,
    Option<String>,
    Option<Vec<u8>>
);

/// Pairs, whether the reply is a map, a list of pairs or a flat list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pairs<K, V>(pub Vec<(K, V)>);

impl<K: FromReply, V: FromReply> FromReply for Pairs<K, V> {
    fn from_reply(reply: ClientReply) -> Result<Self> {
        let flat = items(reply)?.into_iter().flat_map(|item| match item {
            ClientReply::Array(pair) => pair,
            other => vec![other],
        });
        let mut flat = flat.collect::<Vec<_>>().into_iter();
        let mut pairs = Vec::new();
        while let Some(key) = flat.next() {
            let value = flat.next().unwrap_or(ClientReply::Nil);
            pairs.push((K::from_reply(key)?, V::from_reply(value)?));
        }
        Ok(Self(pairs))
    }
}

/// A list of any elements, converted one by one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Many<T>(pub Vec<T>);

impl<T: FromReply> FromReply for Many<T> {
    fn from_reply(reply: ClientReply) -> Result<Self> {
        items(reply)?.into_iter().map(T::from_reply).collect::<Result<_>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_encoded_and_know_whether_they_write() {
        let command = Command::new("SADD").arg("k").arg(7).args(["x", "y"]);
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        command.encode(&mut ours);
        wire::resp::encode_command(["SADD", "k", "7", "x", "y"], &mut theirs);
        assert_eq!(ours, theirs);
        assert!(command.writes());
        let words: [&[u8]; 5] = [b"SADD", b"k", b"7", b"x", b"y"];
        assert_eq!(command.words(), words);
        let odd = "\r\n$1\r\n".repeat(3);
        assert_eq!(
            Command::new("GET").arg("").arg(&odd).words(),
            [b"GET", &b""[..], odd.as_bytes()]
        );
        assert!(!Command::new("scard").writes() && !Command::new("GET").writes());
        assert!(Command::new("some.extension").writes());
        assert_eq!(Command::from_words(&["GET", "k"]), Ok(Command::new("GET").arg("k")));
        assert!(Command::from_words::<&str>(&[]).is_err());
    }

    #[test]
    fn replies_become_values() {
        let bulk = |text: &str| ClientReply::Bulk(text.into());
        assert_eq!(i64::from_reply(bulk("12")), Ok(12));
        assert_eq!(u16::from_reply(ClientReply::Int(-1)).ok(), None);
        assert_eq!(f64::from_reply(bulk("1.5")), Ok(1.5));
        assert_eq!(Option::<String>::from_reply(ClientReply::Nil), Ok(None));
        assert_eq!(String::from_reply(bulk("x")), Ok("x".to_owned()));
        assert!(i64::from_reply(bulk("x")).is_err());
        let flat = ClientReply::Array(vec![bulk("a"), bulk("1"), bulk("b"), bulk("2")]);
        let nested = ClientReply::Array(vec![
            ClientReply::Array(vec![bulk("a"), ClientReply::Double(1.0)]),
            ClientReply::Array(vec![bulk("b"), ClientReply::Double(2.0)]),
        ]);
        let expected = Pairs(vec![("a".to_owned(), 1.0), ("b".to_owned(), 2.0)]);
        assert_eq!(Pairs::from_reply(flat).as_ref(), Ok(&expected));
        assert_eq!(Pairs::from_reply(nested), Ok(expected));
    }
}
