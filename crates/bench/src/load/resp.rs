//! RESP for load generators: commands written straight into a buffer, replies found and classified
//! without being decoded.

use wire::resp::{ClientReply, ReplyDecoder, ReplyLimits};

fn push_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Begins a command of this many words.
pub fn header(out: &mut Vec<u8>, words: usize) {
    out.push(b'*');
    push_number(out, words as u64);
    out.extend_from_slice(b"\r\n");
}

/// Writes a word.
pub fn word(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'$');
    push_number(out, bytes.len() as u64);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// Writes a word that consists of a prefix and a number, such as `user:17`.
pub fn numbered(out: &mut Vec<u8>, prefix: &[u8], number: u64) {
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(number).as_bytes();
    out.push(b'$');
    push_number(out, (prefix.len() + digits.len()) as u64);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(prefix);
    out.extend_from_slice(digits);
    out.extend_from_slice(b"\r\n");
}

/// Writes a whole command.
pub fn command(out: &mut Vec<u8>, words: &[&[u8]]) {
    header(out, words.len());
    words.iter().for_each(|bytes| word(out, bytes));
}

/// Error for bytes that are no RESP2 reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server sent bytes that are no reply")]
pub struct NoReply;

fn line_number(line: &[u8]) -> Result<i64, NoReply> {
    std::str::from_utf8(line).ok().and_then(|digits| digits.parse().ok()).ok_or(NoReply)
}

/// Length in bytes of the reply at the beginning of `buffer`; `None` if it is incomplete.
///
/// # Errors
/// The bytes are no reply.
pub fn frame_len(buffer: &[u8]) -> Result<Option<usize>, NoReply> {
    let (mut at, mut missing) = (0, 1u64);
    while missing > 0 {
        let Some(&kind) = buffer.get(at) else { return Ok(None) };
        let Some(len) = memchr::memchr(b'\n', &buffer[at..]) else { return Ok(None) };
        let line = buffer[at + 1..at + len].strip_suffix(b"\r").ok_or(NoReply)?;
        at += len + 1;
        missing -= 1;
        match kind {
            b'+' | b'-' | b':' => {}
            b'$' => {
                if let Ok(len) = usize::try_from(line_number(line)?) {
                    at += len + 2;
                }
            }
            b'*' => missing += u64::try_from(line_number(line)?).unwrap_or(0),
            _ => return Err(NoReply),
        }
    }
    Ok((at <= buffer.len()).then_some(at))
}

/// One complete reply.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a>(pub &'a [u8]);

impl Frame<'_> {
    /// Text of an error reply.
    pub fn error(&self) -> Option<&str> {
        let text = self.0.strip_prefix(b"-")?;
        Some(std::str::from_utf8(text).unwrap_or("error that is no text").trim_end())
    }

    /// Whether this is the null reply of an `EXEC` that did nothing.
    pub fn is_nil(&self) -> bool {
        matches!(self.0, b"*-1\r\n" | b"$-1\r\n")
    }

    /// Decodes the reply into a value.
    pub fn decode(&self) -> ClientReply {
        let decoded = ReplyDecoder::new().next(self.0, &ReplyLimits::default());
        decoded.ok().flatten().map_or(ClientReply::Nil, |(reply, _)| reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_found_only_when_they_are_complete() {
        let frames: [&[u8]; 8] = [
            b"+OK\r\n",
            b":12\r\n",
            b"-TXNABORT try it again\r\n",
            b"$-1\r\n",
            b"$3\r\na\r\n\r\n",
            b"*-1\r\n",
            b"*0\r\n",
            b"*3\r\n:1\r\n*1\r\n$1\r\nx\r\n+OK\r\n",
        ];
        for frame in frames {
            for cut in 0..frame.len() {
                assert_eq!(frame_len(&frame[..cut]), Ok(None), "{}", frame[..cut].escape_ascii());
            }
            let longer = [frame, b"+more\r\n"].concat();
            assert_eq!(frame_len(&longer), Ok(Some(frame.len())));
        }
        assert_eq!(frame_len(b"x\r\n"), Err(NoReply));
        assert_eq!(frame_len(b"$x\r\n"), Err(NoReply));
    }

    #[test]
    fn replies_are_classified() {
        assert_eq!(Frame(b"-BUSY wait\r\n").error(), Some("BUSY wait"));
        assert_eq!(Frame(b"+OK\r\n").error(), None);
        assert!(Frame(b"*-1\r\n").is_nil() && !Frame(b"*0\r\n").is_nil());
        assert_eq!(Frame(b":7\r\n").decode(), ClientReply::Int(7));
    }

    #[test]
    fn commands_are_what_the_codec_writes() {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        header(&mut ours, 3);
        word(&mut ours, b"SADD");
        numbered(&mut ours, b"set:", 12);
        word(&mut ours, b"");
        wire::resp::encode_command(["SADD", "set:12", ""], &mut theirs);
        assert_eq!(ours, theirs);
    }
}
