//! [`RequestDecoder`]: from received bytes to the words of commands.

use super::inline;
use super::number::{NumberLine, number_line};
use adt::{Args, ErrorReply};
use engine::limits;
use memchr::memchr;
use std::fmt;

/// Bounds on what a client may send. Offsets inside a frame are 32 bits wide, hence the types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest word, in bytes.
    pub bulk_max_bytes: u32,
    /// Most words of a command.
    pub words_max: u32,
    /// Longest command, protocol bytes included.
    pub frame_max_bytes: u32,
    /// Longest inline command and longest line that holds a length.
    pub inline_max_bytes: u32,
    /// Longest word that the decoder skips if it is too long to be accepted, in bytes: the
    /// beginning of the next command is then known.
    pub skipped_max_bytes: u32,
    /// Whether the client has authenticated itself or need not. If not, a command has at most 10
    /// words of at most 16 KiB, as in Redis, and nothing is skipped.
    pub authenticated: bool,
}

impl Default for Limits {
    /// The limits of the product, for a client that has authenticated itself.
    fn default() -> Self {
        Self {
            bulk_max_bytes: limits::ARGUMENT_BYTES_MAX as u32,
            words_max: limits::COMMAND_WORDS_MAX as u32,
            frame_max_bytes: limits::FRAME_BYTES_MAX as u32,
            inline_max_bytes: limits::INLINE_BYTES_MAX as u32,
            skipped_max_bytes: limits::SKIPPED_BYTES_MAX as u32,
            authenticated: true,
        }
    }
}

/// Most words of a command before authentication.
const UNAUTHENTICATED_WORDS_MAX: u32 = 10;
/// Longest word before authentication, in bytes.
const UNAUTHENTICATED_BULK_MAX_BYTES: u32 = 16 << 10;
/// Spans beyond this number are freed after the command that needed them.
const SPANS_KEPT: usize = 1 << 10;
/// Memory of inline words beyond this size is freed after the command that needed it.
const WORDS_KEPT_BYTES: usize = 4 << 10;

/// Longest line with the length of a skipped word: an integer of 64 bits fits. Such lines are
/// searched from their beginning each time.
const SKIPPED_LINE_BYTES_MAX: usize = 32;

/// One complete frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// Bytes of the frame, from the beginning of the buffer.
    pub consumed: usize,
}

/// Bytes that are no command. The connection is unusable, since the beginning of the next frame is
/// unknown, unless [`RequestDecoder::is_skipping`] returns true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// The number of words is no integer or above the limit.
    InvalidMultibulkLength,
    /// The length of a word is no integer, negative or above the limit.
    InvalidBulkLength,
    /// A word does not begin with `$`, but with this byte.
    ExpectedBulk(u8),
    /// A word is not followed by CR LF.
    ExpectedLineEnd,
    /// A quote of an inline command is not closed, or followed by more text.
    UnbalancedQuotes,
    /// An inline command is longer than the limit.
    TooBigInline,
    /// The line with the number of words does not end.
    TooBigCount,
    /// The line with the length of a word does not end.
    TooBigBulkCount,
    /// The whole command is longer than the limit, in bytes.
    TooBigRequest(u32),
    /// A word is longer than the limit, in bytes.
    TooLongBulk(u32),
    /// There are more words than the limit.
    TooManyWords(u32),
    /// More words than a client may send before authentication.
    UnauthenticatedWords,
    /// A longer word than a client may send before authentication.
    UnauthenticatedBulk,
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Protocol error: ")?;
        match self {
            Self::InvalidMultibulkLength => f.write_str("invalid multibulk length"),
            Self::InvalidBulkLength => f.write_str("invalid bulk length"),
            Self::ExpectedBulk(got) => write!(f, "expected '$', got '{}'", got.escape_ascii()),
            Self::ExpectedLineEnd => f.write_str("expected CR LF after a bulk string"),
            Self::UnbalancedQuotes => f.write_str("unbalanced quotes in request"),
            Self::TooBigInline => f.write_str("too big inline request"),
            Self::TooBigCount => f.write_str("too big mbulk count string"),
            Self::TooBigBulkCount => f.write_str("too big bulk count string"),
            Self::TooBigRequest(limit) => {
                write!(f, "too big request, at most {limit} bytes are allowed")
            }
            Self::TooLongBulk(limit) => {
                write!(f, "invalid bulk length, an argument has at most {limit} bytes")
            }
            Self::TooManyWords(limit) => {
                write!(f, "invalid multibulk length, a command has at most {limit} words")
            }
            Self::UnauthenticatedWords => f.write_str("unauthenticated multibulk length"),
            Self::UnauthenticatedBulk => f.write_str("unauthenticated bulk length"),
        }
    }
}

impl std::error::Error for ProtocolError {}

impl From<ProtocolError> for ErrorReply {
    fn from(error: ProtocolError) -> Self {
        ErrorReply::err(error.to_string())
    }
}

/// Finds commands in the bytes of one connection.
///
/// The caller owns the bytes. It calls [`next`](Self::next) with a buffer that begins where the
/// previous frame ended, reads the words through [`args`](Self::args) and then drops the consumed
/// bytes. After `None` the buffer passed next must begin with the same bytes: the decoder continues
/// where it stopped.
///
/// A command that is too large is reported by an error as soon as that is known. If the end of the
/// command can be found, the caller may go on with the same buffer: the decoder *skips* the rest,
/// piece by piece, as frames that hold no command, and then finds the next one.
#[derive(Clone, Debug, Default)]
pub struct RequestDecoder {
    /// Bounds of the words found so far, relative to the beginning of the frame, or to `words`.
    spans: Vec<(u32, u32)>,
    /// Unescaped words of an inline command.
    words: Vec<u8>,
    /// Whether `spans` refers to `words`.
    inline: bool,
    /// Offset where the next word begins; 0 between frames.
    at: usize,
    /// Words that have not come yet.
    missing: u32,
    /// How far an unfinished line was searched for its end.
    scanned: usize,
    /// Rest of a command that is too large.
    skipped: Option<Skipped>,
}

/// Rest of a command whose words are skipped.
#[derive(Clone, Copy, Debug)]
struct Skipped {
    /// Words that have not begun.
    words: u32,
    /// Bytes of the word that has begun, without the line end behind it; none between words.
    word: Option<usize>,
}

impl RequestDecoder {
    /// Creates a decoder at the beginning of a frame.
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks for one complete frame at the beginning of `buffer`; `None` while it is incomplete. A
    /// frame may hold no command (an empty array, an empty line): then [`args`](Self::args) is
    /// `None`.
    ///
    /// # Errors
    /// The bytes are no command or exceed a limit; the connection must be closed.
    #[inline]
    pub fn next(
        &mut self,
        buffer: &[u8],
        limits: &Limits,
    ) -> Result<Option<Parsed>, ProtocolError> {
        if self.skipped.is_some() {
            return self.skip(buffer, limits);
        }
        if self.at == 0 {
            self.spans.clear();
            match buffer.first() {
                None => return Ok(None),
                Some(b'*') => {}
                Some(_) => return self.next_inline(buffer, limits),
            }
            let Some((count, next)) = self.count(buffer, limits)? else { return Ok(None) };
            self.begin(false);
            if count == 0 {
                return Ok(Some(Parsed { consumed: next }));
            }
            self.at = next;
            self.missing = count;
        }
        self.next_words(buffer, limits)
    }

    /// Words of the frame that [`next`](Self::next) has just found at the beginning of `buffer`;
    /// `None` if it held none.
    #[inline]
    pub fn args<'a>(&'a self, buffer: &'a [u8]) -> Option<Args<'a>> {
        if self.spans.is_empty() || self.at != 0 || self.skipped.is_some() {
            return None;
        }
        Some(Args::new(if self.inline { &self.words } else { buffer }, &self.spans))
    }

    /// Bounds of the words, relative to the buffer, for callers that keep several frames. `None`
    /// for an inline command, whose words are not in the buffer.
    pub fn spans(&self) -> Option<&[(u32, u32)]> {
        (!self.inline && self.at == 0).then_some(&self.spans)
    }

    #[inline]
    fn begin(&mut self, inline: bool) {
        self.scanned = 0;
        self.inline = inline;
        if self.spans.capacity() > SPANS_KEPT {
            self.spans.shrink_to(SPANS_KEPT);
        }
    }

    /// Reads the number of words and the offset of the first; anything below one counts as zero.
    #[inline]
    fn count(
        &mut self,
        buffer: &[u8],
        limits: &Limits,
    ) -> Result<Option<(u32, usize)>, ProtocolError> {
        let line_max = limits.inline_max_bytes as usize;
        match number_line(buffer, 1, &mut self.scanned, line_max) {
            NumberLine::Number(count, next) => {
                if count > i64::from(i32::MAX) {
                    return Err(ProtocolError::InvalidMultibulkLength);
                }
                if !limits.authenticated && count > i64::from(UNAUTHENTICATED_WORDS_MAX) {
                    return Err(ProtocolError::UnauthenticatedWords);
                }
                if count > i64::from(limits.words_max) {
                    if limits.authenticated {
                        self.begin_skip(next, count as u32);
                    }
                    return Err(ProtocolError::TooManyWords(limits.words_max));
                }
                Ok(Some((count.max(0) as u32, next)))
            }
            NumberLine::Partial => Ok(None),
            NumberLine::Invalid => Err(ProtocolError::InvalidMultibulkLength),
            NumberLine::TooLong => Err(ProtocolError::TooBigCount),
        }
    }

    #[inline]
    fn next_words(
        &mut self,
        buffer: &[u8],
        limits: &Limits,
    ) -> Result<Option<Parsed>, ProtocolError> {
        let mut at = self.at;
        let mut missing = self.missing;
        while missing > 0 {
            match buffer.get(at) {
                None => return Ok(self.pause(at, missing)),
                Some(b'$') => {}
                Some(&other) => return Err(ProtocolError::ExpectedBulk(other)),
            }
            let line_max = limits.inline_max_bytes as usize;
            let (start, end) = match number_line(buffer, at + 1, &mut self.scanned, line_max) {
                NumberLine::Number(len, start) => match bulk_len(len, start, limits) {
                    Ok(len) => (start, start + len),
                    Err(error) if limits.authenticated => {
                        return Err(self.give_up(at, missing, error));
                    }
                    Err(error) => return Err(error),
                },
                NumberLine::Partial => return Ok(self.pause(at, missing)),
                NumberLine::Invalid => return Err(ProtocolError::InvalidBulkLength),
                NumberLine::TooLong => return Err(ProtocolError::TooBigBulkCount),
            };
            match buffer.get(end..end + 2) {
                Some(b"\r\n") => {}
                Some(_) => return Err(ProtocolError::ExpectedLineEnd),
                None => return Ok(self.pause(at, missing)),
            }
            self.spans.push((start as u32, end as u32));
            at = end + 2;
            missing -= 1;
        }
        self.at = 0;
        self.scanned = 0;
        Ok(Some(Parsed { consumed: at }))
    }

    /// Remembers the beginning of the first incomplete word.
    #[cold]
    fn pause(&mut self, at: usize, missing: u32) -> Option<Parsed> {
        self.at = at;
        self.missing = missing;
        None
    }

    /// Refuses the command at the word that begins at `at`.
    #[cold]
    fn give_up(&mut self, at: usize, missing: u32, error: ProtocolError) -> ProtocolError {
        if matches!(error, ProtocolError::TooLongBulk(_) | ProtocolError::TooBigRequest(_)) {
            self.begin_skip(at, missing);
        }
        error
    }

    fn begin_skip(&mut self, at: usize, words: u32) {
        self.spans.clear();
        self.begin(false);
        self.at = at;
        self.skipped = Some(Skipped { words, word: None });
    }

    /// Whether the rest of a command is being skipped: an error has reported that it is too large,
    /// or the caller has called [`skip_rest`](Self::skip_rest), and the next command can still be
    /// found.
    pub fn is_skipping(&self) -> bool {
        self.skipped.is_some()
    }

    /// Skips the rest of the command that has begun. Returns whether that is possible: not if none
    /// has begun, or if its end is unknown.
    pub fn skip_rest(&mut self) -> bool {
        if self.skipped.is_none() && self.at > 0 {
            self.begin_skip(self.at, self.missing);
        }
        self.skipped.is_some()
    }

    /// Skips as many bytes as `buffer` has of the command.
    #[cold]
    fn skip(&mut self, buffer: &[u8], limits: &Limits) -> Result<Option<Parsed>, ProtocolError> {
        let Some(Skipped { mut words, mut word }) = self.skipped else { return Ok(None) };
        let mut at = self.at;
        loop {
            match word {
                None if words == 0 => {
                    (self.at, self.skipped) = (0, None);
                    return Ok(Some(Parsed { consumed: at }));
                }
                None => match skipped_word(buffer, at, limits)? {
                    Some((len, next)) => (word, words, at) = (Some(len), words - 1, next),
                    None => break,
                },
                Some(left) if left > 0 => {
                    let taken = left.min(buffer.len() - at);
                    if taken == 0 {
                        break;
                    }
                    (word, at) = (Some(left - taken), at + taken);
                }
                Some(_) => match buffer.get(at..at + 2) {
                    Some(b"\r\n") => (word, at) = (None, at + 2),
                    Some(_) => return Err(ProtocolError::ExpectedLineEnd),
                    None => break,
                },
            }
        }
        self.at = 0;
        self.skipped = Some(Skipped { words, word });
        Ok((at > 0).then_some(Parsed { consumed: at }))
    }

    #[cold]
    fn next_inline(
        &mut self,
        buffer: &[u8],
        limits: &Limits,
    ) -> Result<Option<Parsed>, ProtocolError> {
        let max = limits.inline_max_bytes as usize;
        let from = self.scanned;
        let found = memchr(b'\n', &buffer[from..]).map(|i| from + i);
        let end = found.unwrap_or(buffer.len());
        if end > max {
            return Err(ProtocolError::TooBigInline);
        }
        if found.is_none() {
            self.scanned = end;
            return Ok(None);
        }
        self.begin(true);
        self.words.clear();
        self.words.shrink_to(WORDS_KEPT_BYTES);
        inline::split(&buffer[..end], &mut self.words, &mut self.spans)?;
        if self.spans.len() > limits.words_max as usize {
            return Err(ProtocolError::TooManyWords(limits.words_max));
        }
        if !limits.authenticated && self.spans.len() > UNAUTHENTICATED_WORDS_MAX as usize {
            return Err(ProtocolError::UnauthenticatedWords);
        }
        Ok(Some(Parsed { consumed: end + 1 }))
    }
}

/// Checks the declared length of a word that begins at `start`.
#[inline]
fn bulk_len(len: i64, start: usize, limits: &Limits) -> Result<usize, ProtocolError> {
    let stranger_max_bytes = UNAUTHENTICATED_BULK_MAX_BYTES.min(limits.bulk_max_bytes);
    if !limits.authenticated && len > i64::from(stranger_max_bytes) {
        return Err(ProtocolError::UnauthenticatedBulk);
    }
    if len < 0 || len > i64::from(limits.skipped_max_bytes.max(limits.bulk_max_bytes)) {
        return Err(ProtocolError::InvalidBulkLength);
    }
    if len > i64::from(limits.bulk_max_bytes) {
        return Err(ProtocolError::TooLongBulk(limits.bulk_max_bytes));
    }
    let len = len as usize;
    if start + len + 2 > limits.frame_max_bytes as usize {
        return Err(ProtocolError::TooBigRequest(limits.frame_max_bytes));
    }
    Ok(len)
}

/// Reads the length of a word of a skipped command, and the offset of the word; `None` while its
/// line is incomplete.
fn skipped_word(
    buffer: &[u8],
    at: usize,
    limits: &Limits,
) -> Result<Option<(usize, usize)>, ProtocolError> {
    match buffer.get(at) {
        None => return Ok(None),
        Some(b'$') => {}
        Some(&other) => return Err(ProtocolError::ExpectedBulk(other)),
    }
    match number_line(buffer, at + 1, &mut 0, SKIPPED_LINE_BYTES_MAX) {
        NumberLine::Number(len, start) if len <= i64::from(limits.skipped_max_bytes) => {
            let len = usize::try_from(len).map_err(|_| ProtocolError::InvalidBulkLength)?;
            Ok(Some((len, start)))
        }
        NumberLine::Number(..) | NumberLine::Invalid => Err(ProtocolError::InvalidBulkLength),
        NumberLine::Partial => Ok(None),
        NumberLine::TooLong => Err(ProtocolError::TooBigBulkCount),
    }
}
