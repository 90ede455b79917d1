//! [`ReplyDecoder`]: replies as a client reads them.

use super::number::{LineEnd, NumberLine, line_end, number_line, short_number};
use adt::Blob;
use std::fmt;

/// A reply as a client sees it. The RESP2 and RESP3 forms of a reply give the same value where the
/// protocol allows it.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientReply {
    /// `+OK`.
    Ok,
    /// Any other status.
    Status(Blob),
    /// An error: its code, a space, what was wrong.
    Error(Box<str>),
    /// No value, no array.
    Nil,
    /// A signed integer.
    Int(i64),
    /// A floating-point number (RESP3).
    Double(f64),
    /// A truth value (RESP3).
    Bool(bool),
    /// A byte string, a big number's digits, or the text of a verbatim string.
    Bulk(Blob),
    /// A sequence.
    Array(Vec<ClientReply>),
    /// An unordered collection (RESP3).
    Set(Vec<ClientReply>),
    /// Pairs (RESP3).
    Map(Vec<(ClientReply, ClientReply)>),
    /// An out-of-band message (RESP3): not the answer to a request.
    Push(Vec<ClientReply>),
}

impl ClientReply {
    /// The code of an error: its first word.
    pub fn error_code(&self) -> Option<&str> {
        match self {
            Self::Error(line) => Some(line.split(' ').next().unwrap_or_default()),
            _ => None,
        }
    }
}

/// Bounds on what a server may answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyLimits {
    /// Longest byte string.
    pub bulk_max_bytes: usize,
    /// Most items of one array, set, map or push (a pair is two items).
    pub items_max: usize,
    /// Longest reply, protocol bytes included. A reply takes at most about eleven times as much
    /// memory as it has bytes.
    pub frame_max_bytes: usize,
    /// Longest status, error or number.
    pub line_max_bytes: usize,
    /// How many arrays, sets, maps may lie within one another.
    pub depth_max: usize,
}

impl Default for ReplyLimits {
    fn default() -> Self {
        Self {
            bulk_max_bytes: 512 << 20,
            items_max: 1 << 24,
            frame_max_bytes: 1 << 30,
            line_max_bytes: 64 << 10,
            depth_max: 8,
        }
    }
}

/// Bytes that are no reply. The connection is unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyError {
    /// No reply begins with this byte.
    UnknownKind(u8),
    /// A length, number, truth value or line end is malformed.
    Malformed,
    /// Longer, larger or deeper than the limits allow.
    TooLarge,
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownKind(byte) => {
                write!(f, "no reply begins with '{}'", byte.escape_ascii())
            }
            Self::Malformed => f.write_str("malformed reply"),
            Self::TooLarge => f.write_str("a reply exceeds the limits of the client"),
        }
    }
}

impl std::error::Error for ReplyError {}

/// Finds replies in the bytes of one connection. The buffer is handled as by
/// [`RequestDecoder`](super::RequestDecoder).
#[derive(Clone, Debug, Default)]
pub struct ReplyDecoder {
    /// Collections that are not complete yet, the outermost first.
    open: Vec<Open>,
    /// Offset of the first part that was not read yet; 0 between frames.
    at: usize,
    /// How far an unfinished line was searched for its end.
    scanned: usize,
}

#[derive(Clone, Debug)]
struct Open {
    kind: u8,
    missing: usize,
    items: Vec<ClientReply>,
}

/// One part of a reply.
enum Part {
    /// Complete in itself; then the offset after it.
    Whole(ClientReply, usize),
    /// Beginning of a collection: its kind, the number of its items, the offset after its header.
    Begin(u8, usize, usize),
    /// Incomplete.
    Partial,
}

impl ReplyDecoder {
    /// Creates a decoder at the beginning of a reply.
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks for one complete reply at the beginning of `buffer`. Returns it and its length in
    /// bytes, or `None` while it is incomplete. After `None` the buffer passed next must begin with
    /// the same bytes.
    ///
    /// # Errors
    /// The bytes are no reply or exceed a limit; the connection must be closed.
    pub fn next(
        &mut self,
        buffer: &[u8],
        limits: &ReplyLimits,
    ) -> Result<Option<(ClientReply, usize)>, ReplyError> {
        let mut at = self.at;
        if at == 0
            && let Some(simple) = simple(buffer, limits)
        {
            self.scanned = 0;
            return Ok(Some(simple));
        }
        loop {
            match self.part(buffer, at, limits)? {
                Part::Whole(reply, next) => {
                    at = next;
                    self.scanned = 0;
                    if at > limits.frame_max_bytes {
                        return Err(ReplyError::TooLarge);
                    }
                    if let Some(reply) = self.close(reply) {
                        self.at = 0;
                        return Ok(Some((reply, at)));
                    }
                }
                Part::Begin(kind, items, next) => {
                    at = next;
                    self.scanned = 0;
                    if self.open.len() == limits.depth_max || at > limits.frame_max_bytes {
                        return Err(ReplyError::TooLarge);
                    }
                    let room = Vec::with_capacity(items.min(64));
                    self.open.push(Open { kind, missing: items, items: room });
                }
                Part::Partial => {
                    if buffer.len() > limits.frame_max_bytes {
                        return Err(ReplyError::TooLarge);
                    }
                    self.at = at;
                    return Ok(None);
                }
            }
        }
    }

    /// Adds a complete item to the innermost open collection; returns it if the whole reply is
    /// complete.
    #[inline]
    fn close(&mut self, mut reply: ClientReply) -> Option<ClientReply> {
        while let Some(open) = self.open.last_mut() {
            open.items.push(reply);
            open.missing -= 1;
            if open.missing > 0 {
                return None;
            }
            let Open { kind, items, .. } = self.open.pop()?;
            if kind == b'|' {
                // Attributes describe the reply that follows; this client ignores them.
                return None;
            }
            reply = collection(kind, items);
        }
        Some(reply)
    }

    #[inline]
    fn part(&mut self, buffer: &[u8], at: usize, limits: &ReplyLimits) -> Result<Part, ReplyError> {
        let Some(&kind) = buffer.get(at) else { return Ok(Part::Partial) };
        match kind {
            b'$' | b'=' | b'!' | b':' | b'*' | b'~' | b'%' | b'>' | b'|' => {
                let line_max = limits.line_max_bytes;
                match number_line(buffer, at + 1, &mut self.scanned, line_max) {
                    NumberLine::Number(value, next) if kind == b':' => {
                        Ok(Part::Whole(ClientReply::Int(value), next))
                    }
                    NumberLine::Number(-1, next) if matches!(kind, b'$' | b'*') => {
                        Ok(Part::Whole(ClientReply::Nil, next))
                    }
                    NumberLine::Number(len, next) => sized(kind, len, buffer, next, limits),
                    NumberLine::Partial => Ok(Part::Partial),
                    NumberLine::Invalid => Err(ReplyError::Malformed),
                    NumberLine::TooLong => Err(ReplyError::TooLarge),
                }
            }
            b'+' | b'-' | b'_' | b',' | b'#' | b'(' => {
                match line_end(buffer, at + 1, &mut self.scanned, limits.line_max_bytes) {
                    LineEnd::At(end) => Ok(Part::Whole(line(kind, &buffer[at + 1..end])?, end + 2)),
                    LineEnd::Partial => Ok(Part::Partial),
                    LineEnd::Invalid => Err(ReplyError::Malformed),
                    LineEnd::TooLong => Err(ReplyError::TooLarge),
                }
            }
            other => Err(ReplyError::UnknownKind(other)),
        }
    }
}

/// Decodes the most frequent replies without the machinery for all others: `OK`, an integer of up
/// to nine digits, a complete byte string within the limits.
#[inline]
fn simple(buffer: &[u8], limits: &ReplyLimits) -> Option<(ClientReply, usize)> {
    let (kind, rest) = buffer.split_first()?;
    match kind {
        b'+' if rest.starts_with(b"OK\r\n") => Some((ClientReply::Ok, 5)),
        b':' => {
            let (value, next) = short_number(buffer, 1)?;
            Some((ClientReply::Int(value), next))
        }
        b'$' => {
            let (len, start) = short_number(buffer, 1)?;
            let end = start + len as usize;
            let within = len as usize <= limits.bulk_max_bytes
                && end + 2 <= limits.frame_max_bytes
                && buffer.get(end..end + 2)? == b"\r\n";
            within.then(|| (ClientReply::Bulk(Blob::new(&buffer[start..end])), end + 2))
        }
        _ => None,
    }
}

/// Decodes the content after a declared length, which ends before `next`.
#[inline]
fn sized(
    kind: u8,
    len: i64,
    buffer: &[u8],
    next: usize,
    limits: &ReplyLimits,
) -> Result<Part, ReplyError> {
    let len = usize::try_from(len).map_err(|_| ReplyError::Malformed)?;
    if matches!(kind, b'$' | b'=' | b'!') {
        if len > limits.bulk_max_bytes {
            return Err(ReplyError::TooLarge);
        }
        let end = next + len;
        return match buffer.get(end..end + 2) {
            Some(b"\r\n") => Ok(Part::Whole(string(kind, &buffer[next..end])?, end + 2)),
            Some(_) => Err(ReplyError::Malformed),
            None if end + 2 > limits.frame_max_bytes => Err(ReplyError::TooLarge),
            None => Ok(Part::Partial),
        };
    }
    let pairs = matches!(kind, b'%' | b'|');
    let items = if pairs { len.saturating_mul(2) } else { len };
    if items > limits.items_max {
        return Err(ReplyError::TooLarge);
    }
    match (items, kind) {
        // An empty attribute announces nothing: what follows it is the reply.
        (0, b'|') => Err(ReplyError::Malformed),
        (0, _) => Ok(Part::Whole(collection(kind, Vec::new()), next)),
        _ => Ok(Part::Begin(kind, items, next)),
    }
}

#[inline]
fn string(kind: u8, bytes: &[u8]) -> Result<ClientReply, ReplyError> {
    match (kind, bytes) {
        (b'$', _) => Ok(ClientReply::Bulk(Blob::new(bytes))),
        // Verbatim text: three characters that tell the format, a colon, the text.
        (b'=', [_, _, _, b':', text @ ..]) => Ok(ClientReply::Bulk(Blob::new(text))),
        (b'!', _) => Ok(ClientReply::Error(String::from_utf8_lossy(bytes).into())),
        _ => Err(ReplyError::Malformed),
    }
}

fn line(kind: u8, text: &[u8]) -> Result<ClientReply, ReplyError> {
    match (kind, text) {
        (b'+', b"OK") => Ok(ClientReply::Ok),
        (b'+', _) => Ok(ClientReply::Status(Blob::new(text))),
        (b'-', _) => Ok(ClientReply::Error(String::from_utf8_lossy(text).into())),
        (b'_', b"") => Ok(ClientReply::Nil),
        (b'#', b"t") => Ok(ClientReply::Bool(true)),
        (b'#', b"f") => Ok(ClientReply::Bool(false)),
        (b',', _) => std::str::from_utf8(text)
            .ok()
            .and_then(|text| text.parse().ok())
            .map(ClientReply::Double)
            .ok_or(ReplyError::Malformed),
        (b'(', _) => {
            let digits = text.strip_prefix(b"-").unwrap_or(text);
            if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
                return Err(ReplyError::Malformed);
            }
            Ok(ClientReply::Bulk(Blob::new(text)))
        }
        _ => Err(ReplyError::Malformed),
    }
}

fn collection(kind: u8, items: Vec<ClientReply>) -> ClientReply {
    match kind {
        b'~' => ClientReply::Set(items),
        b'>' => ClientReply::Push(items),
        b'%' => {
            let mut items = items.into_iter();
            let mut pairs = Vec::with_capacity(items.len() / 2);
            while let (Some(key), Some(value)) = (items.next(), items.next()) {
                pairs.push((key, value));
            }
            ClientReply::Map(pairs)
        }
        _ => ClientReply::Array(items),
    }
}
