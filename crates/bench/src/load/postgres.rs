//! The part of PostgreSQL's protocol (version 3) that a load needs: a connection that is trusted,
//! prepared statements with text parameters, and the answer to all that was sent before a `Sync`.

use super::resp::NoReply;

const VERSION: i32 = 196_608;
/// Type of the message that ends every answer: the server is ready for the next request.
const READY: u8 = b'Z';
/// Longest message that a server of this load may send.
const MESSAGE_MAX: usize = 64 << 20;

/// Appends a message; its length is filled in.
fn message(out: &mut Vec<u8>, kind: Option<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    out.extend(kind);
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    body(out);
    let len = (out.len() - start) as i32;
    out[start..start + 4].copy_from_slice(&len.to_be_bytes());
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

/// Begins a session of this user in the database of the same name.
pub fn startup(out: &mut Vec<u8>, user: &str) {
    message(out, None, |out| {
        out.extend_from_slice(&VERSION.to_be_bytes());
        for word in ["user", user, "database", user] {
            text(out, word);
        }
        out.push(0);
    });
}

/// Runs a query of its own, or several in one text; no [`sync`] is needed.
pub fn query(out: &mut Vec<u8>, sql: &str) {
    message(out, Some(b'Q'), |out| text(out, sql));
}

/// Prepares a statement under a name.
pub fn prepare(out: &mut Vec<u8>, name: &str, sql: &str) {
    message(out, Some(b'P'), |out| {
        text(out, name);
        text(out, sql);
        out.extend_from_slice(&0i16.to_be_bytes());
    });
}

/// Executes a prepared statement with these numbers.
pub fn execute(out: &mut Vec<u8>, name: &str, numbers: &[i64]) {
    message(out, Some(b'B'), |out| {
        text(out, "");
        text(out, name);
        out.extend_from_slice(&0i16.to_be_bytes());
        out.extend_from_slice(&(numbers.len() as i16).to_be_bytes());
        let mut buffer = itoa::Buffer::new();
        for number in numbers {
            let digits = buffer.format(*number).as_bytes();
            out.extend_from_slice(&(digits.len() as i32).to_be_bytes());
            out.extend_from_slice(digits);
        }
        out.extend_from_slice(&0i16.to_be_bytes());
    });
    message(out, Some(b'E'), |out| {
        text(out, "");
        out.extend_from_slice(&0i32.to_be_bytes());
    });
}

/// Ends a group of messages: the server answers, and says that it is ready.
pub fn sync(out: &mut Vec<u8>) {
    message(out, Some(b'S'), |_| {});
}

/// Type, body and whole length of a message.
type Message<'b> = (u8, &'b [u8], usize);

/// First message in `bytes`; `None` if it is incomplete.
fn first(bytes: &[u8]) -> Result<Option<Message<'_>>, NoReply> {
    let Some((&kind, rest)) = bytes.split_first() else { return Ok(None) };
    let Some(len) = rest.first_chunk() else { return Ok(None) };
    let len = usize::try_from(i32::from_be_bytes(*len)).map_err(|_| NoReply)?;
    if !(4..=MESSAGE_MAX).contains(&len) || !kind.is_ascii_alphanumeric() {
        return Err(NoReply);
    }
    Ok(rest.get(4..len).map(|body| (kind, body, len + 1)))
}

/// Length of the answer at the beginning of `bytes`, with the message that the server is ready;
/// `None` if it is incomplete.
///
/// # Errors
/// The bytes are no answer.
pub fn answer_len(bytes: &[u8]) -> Result<Option<usize>, NoReply> {
    let mut at = 0;
    while let Some((kind, _, len)) = first(&bytes[at..])? {
        at += len;
        if kind == READY {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// Contents of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// First column of the last row, as a number.
    pub number: Option<i64>,
    /// Code and text of an error.
    pub error: Option<(String, String)>,
}

/// Reads a whole answer.
pub fn answer(mut bytes: &[u8]) -> Answer {
    let mut answer = Answer::default();
    while let Ok(Some((kind, body, len))) = first(bytes) {
        match kind {
            // Number of columns, then the length of the first one and its text.
            b'D' => {
                let len =
                    body.get(2..6).and_then(|len| len.try_into().ok()).map(i32::from_be_bytes);
                let len = len.and_then(|len| usize::try_from(len).ok());
                let digits = len.and_then(|len| body.get(6..6 + len));
                let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
                answer.number = digits.and_then(|digits| digits.parse().ok());
            }
            b'E' => {
                let fields: Vec<_> = body.split(|byte| *byte == 0).collect();
                let field = |kind: u8| {
                    let found = fields.iter().find(|field| field.first() == Some(&kind));
                    found.map_or(String::new(), |f| String::from_utf8_lossy(&f[1..]).into_owned())
                };
                answer.error = Some((field(b'C'), field(b'M')));
            }
            // Everything else confirms, describes or informs.
            _ => (),
        }
        bytes = &bytes[len..];
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_ends_when_the_server_is_ready() {
        let mut bytes = b"2\0\0\0\x04D\0\0\0\x0d\0\x01\0\0\0\x0342!".to_vec();
        bytes[17] = b'7';
        bytes.extend_from_slice(b"C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I");
        for cut in 0..bytes.len() {
            assert_eq!(answer_len(&bytes[..cut]), Ok(None), "{cut}");
        }
        let longer = [&bytes[..], b"Z"].concat();
        assert_eq!(answer_len(&longer), Ok(Some(bytes.len())));
        assert_eq!(answer_len(b"Z\0\0\0\x01"), Err(NoReply));
        assert_eq!(answer_len(b"\x05\0\0\0\x05x"), Err(NoReply));
    }

    #[test]
    fn rows_and_errors_are_read() {
        let row = b"D\0\0\0\x0c\0\x01\0\0\0\x0242Z\0\0\0\x05T";
        assert_eq!(answer(row), Answer { number: Some(42), error: None });
        let error = b"E\0\0\0\x1aSERROR\0C40P01\0Mdeadlock\0\0Z\0\0\0\x05E";
        let mut error = error.to_vec();
        error[4] = (error.len() - 6 - 1) as u8;
        let found = answer(&error).error.expect("an error");
        assert_eq!(found, ("40P01".to_owned(), "deadlock".to_owned()));
    }

    #[test]
    fn requests_have_their_lengths() {
        let mut out = Vec::new();
        startup(&mut out, "u");
        assert_eq!(out, b"\0\0\0\x1b\0\x03\0\0user\0u\0database\0u\0\0");
        out.clear();
        prepare(&mut out, "s", "SELECT 1");
        sync(&mut out);
        assert_eq!(out, b"P\0\0\0\x11s\0SELECT 1\0\0\0S\0\0\0\x04");
        out.clear();
        execute(&mut out, "s", &[-7]);
        assert_eq!(out, b"B\0\0\0\x13\0s\0\0\0\0\x01\0\0\0\x02-7\0\0E\0\0\0\x09\0\0\0\0\0");
        out.clear();
        query(&mut out, "x");
        assert_eq!(out, b"Q\0\0\0\x06x\0");
    }
}
