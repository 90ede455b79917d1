//! Frames, and the four-letter words that a connection may hold instead of one.

use super::record::Record;
use std::fmt;

/// Longest frame, in bytes without its length, that ZooKeeper accepts by default
/// (`jute.maxbuffer`).
pub const FRAME_BYTES_MAX: usize = 0xf_ffff;

/// Bytes of a frame's length field.
const LENGTH_BYTES: usize = 4;

/// Impossible length of a frame. The connection must be closed: where the next frame begins is
/// unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// Below 0.
    Negative(i32),
    /// Above the limit.
    TooLong {
        /// Declared length, in bytes.
        len: usize,
        /// Limit, in bytes.
        max: usize,
    },
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Negative(len) => write!(f, "a frame has a negative length: {len}"),
            Self::TooLong { len, max } => {
                write!(f, "a frame has {len} bytes, of which {max} are allowed")
            }
        }
    }
}

impl std::error::Error for FrameError {}

/// Finds the first frame of `buffer`. Returns its content and the number of bytes that it takes
/// with its length field, or `None` while it is incomplete.
///
/// # Errors
/// As soon as the length field is there, if it is below 0 or above `frame_bytes_max`.
pub fn next_frame(
    buffer: &[u8],
    frame_bytes_max: usize,
) -> Result<Option<(&[u8], usize)>, FrameError> {
    let Some((len, rest)) = buffer.split_first_chunk::<LENGTH_BYTES>() else {
        return Ok(None);
    };
    let len = i32::from_be_bytes(*len);
    let Ok(len) = usize::try_from(len) else {
        return Err(FrameError::Negative(len));
    };
    if len > frame_bytes_max {
        return Err(FrameError::TooLong { len, max: frame_bytes_max });
    }
    Ok(rest.get(..len).map(|frame| (frame, LENGTH_BYTES + len)))
}

/// Appends a frame with the content that `body` writes.
pub(super) fn framed<T>(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    let start = out.len();
    0i32.put(out);
    let result = body(out);
    let (len, rest) = out[start..].split_at_mut(LENGTH_BYTES);
    let bytes = i32::try_from(rest.len()).expect("frames are below 2^31 bytes");
    len.copy_from_slice(&bytes.to_be_bytes());
    result
}

/// Command that an operator or a monitor sends instead of connecting. The answer is text, after
/// which the server closes the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum FourLetterWord {
    /// `ruok`: is the server running?
    Ruok = word(*b"ruok"),
    /// `stat`: about the server and its connections.
    Stat = word(*b"stat"),
    /// `srvr`: about the server.
    Srvr = word(*b"srvr"),
    /// `mntr`: figures for a monitor, one per line.
    Mntr = word(*b"mntr"),
    /// `conf`: the configuration.
    Conf = word(*b"conf"),
    /// `cons`: the connections.
    Cons = word(*b"cons"),
    /// `crst`: resets the statistics of all connections.
    Crst = word(*b"crst"),
    /// `srst`: resets the statistics of the server.
    Srst = word(*b"srst"),
    /// `dump`: sessions and their ephemeral nodes.
    Dump = word(*b"dump"),
    /// `envi`: the server's environment.
    Envi = word(*b"envi"),
    /// `wchs`: how many watches there are.
    Wchs = word(*b"wchs"),
    /// `wchc`: watches by session.
    Wchc = word(*b"wchc"),
    /// `wchp`: watches by path.
    Wchp = word(*b"wchp"),
    /// `dirs`: bytes on disk.
    Dirs = word(*b"dirs"),
    /// `isro`: is the server in read-only mode?
    Isro = word(*b"isro"),
}

const fn word(letters: [u8; 4]) -> u32 {
    u32::from_be_bytes(letters)
}

// As a length, the smallest word exceeds that of every frame.
const _: () = assert!(FRAME_BYTES_MAX < FourLetterWord::Conf as usize);

impl FourLetterWord {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::Ruok,
        Self::Stat,
        Self::Srvr,
        Self::Mntr,
        Self::Conf,
        Self::Cons,
        Self::Crst,
        Self::Srst,
        Self::Dump,
        Self::Envi,
        Self::Wchs,
        Self::Wchc,
        Self::Wchp,
        Self::Dirs,
        Self::Isro,
    ];

    /// Four-letter word at the start of a connection, if there is one. Fewer than four bytes are
    /// none yet.
    pub fn of(buffer: &[u8]) -> Option<Self> {
        let first = buffer.first_chunk()?;
        Self::ALL.into_iter().find(|known| known.letters() == *first)
    }

    /// The word's letters, as a client sends them.
    pub fn letters(self) -> [u8; 4] {
        (self as u32).to_be_bytes()
    }
}
