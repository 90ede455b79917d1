//! Replies and commands as bytes.

use super::number::{push_double, push_int};
use adt::{Blob, Reply};

/// The version of the protocol that a connection speaks (`HELLO 2`, `HELLO 3`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// RESP2: strings, integers, arrays.
    #[default]
    Resp2,
    /// RESP3: also maps, sets, doubles, truth values, pushes.
    Resp3,
}

/// Appends a reply to `out` in the form of `protocol`.
///
/// Whatever the reply holds, exactly one frame is written: lines cannot be broken by their
/// content. [`Reply::Record`] must not leave the server and is written as an error.
pub fn encode(reply: &Reply, protocol: Protocol, out: &mut Vec<u8>) {
    let resp3 = protocol == Protocol::Resp3;
    match reply {
        Reply::Ok => out.extend_from_slice(b"+OK\r\n"),
        Reply::Status(text) => {
            out.push(b'+');
            push_line(text, out);
            out.extend_from_slice(b"\r\n");
        }
        Reply::Nil if resp3 => out.extend_from_slice(b"_\r\n"),
        Reply::Nil => out.extend_from_slice(b"$-1\r\n"),
        Reply::NilArray if resp3 => out.extend_from_slice(b"_\r\n"),
        Reply::NilArray => out.extend_from_slice(b"*-1\r\n"),
        Reply::Int(value) => push_header(b':', *value, out),
        Reply::Double(value) => push_double_reply(*value, protocol, out),
        Reply::Bool(value) if resp3 => {
            out.extend_from_slice(if *value { b"#t\r\n" } else { b"#f\r\n" });
        }
        Reply::Bool(value) => out.extend_from_slice(if *value { b":1\r\n" } else { b":0\r\n" }),
        Reply::Bulk(bytes) => push_bulk(bytes, out),
        Reply::Text(text) if resp3 => {
            push_len(b'=', text.len() + 4, out);
            out.extend_from_slice(b"txt:");
            out.extend_from_slice(text.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        Reply::Text(text) => push_bulk(text.as_bytes(), out),
        Reply::Array(items) => encode_items(b'*', items, protocol, out),
        Reply::Set(items) => encode_items(if resp3 { b'~' } else { b'*' }, items, protocol, out),
        Reply::Push(items) => encode_items(if resp3 { b'>' } else { b'*' }, items, protocol, out),
        Reply::Map(pairs) => {
            if resp3 {
                push_len(b'%', pairs.len(), out);
            } else {
                push_len(b'*', pairs.len() * 2, out);
            }
            for (key, value) in pairs {
                encode(key, protocol, out);
                encode(value, protocol, out);
            }
        }
        Reply::Scored(members) => encode_scored(members, protocol, out),
        Reply::Pairs(pairs) => {
            push_len(b'*', if resp3 { pairs.len() } else { pairs.len() * 2 }, out);
            for (field, value) in pairs {
                if resp3 {
                    out.extend_from_slice(b"*2\r\n");
                }
                push_bulk(field, out);
                push_bulk(value, out);
            }
        }
        Reply::Named(pairs) => {
            push_len(if resp3 { b'%' } else { b'*' }, pairs.len(), out);
            for (name, value) in pairs {
                if !resp3 {
                    out.extend_from_slice(b"*2\r\n");
                }
                push_bulk(name, out);
                encode(value, protocol, out);
            }
        }
        Reply::Error(error) => {
            out.push(b'-');
            push_line(error.code(), out);
            if !error.text().is_empty() {
                out.push(b' ');
                push_line(error.text(), out);
            }
            out.extend_from_slice(b"\r\n");
        }
        Reply::Record(_) => {
            out.extend_from_slice(b"-ERR a record is no reply; report this as a defect\r\n");
        }
    }
}

/// Appends a command: an array of bulk strings.
pub fn encode_command<I>(words: I, out: &mut Vec<u8>)
where
    I: IntoIterator<Item: AsRef<[u8]>, IntoIter: ExactSizeIterator>,
{
    let words = words.into_iter();
    push_len(b'*', words.len(), out);
    for word in words {
        push_bulk(word.as_ref(), out);
    }
}

fn encode_items(kind: u8, items: &[Reply], protocol: Protocol, out: &mut Vec<u8>) {
    push_len(kind, items.len(), out);
    for item in items {
        encode(item, protocol, out);
    }
}

fn encode_scored(members: &[(Blob, f64)], protocol: Protocol, out: &mut Vec<u8>) {
    let resp3 = protocol == Protocol::Resp3;
    push_len(b'*', if resp3 { members.len() } else { members.len() * 2 }, out);
    for (member, score) in members {
        if resp3 {
            out.extend_from_slice(b"*2\r\n");
        }
        push_bulk(member, out);
        push_double_reply(*score, protocol, out);
    }
}

pub(super) fn push_double_reply(value: f64, protocol: Protocol, out: &mut Vec<u8>) {
    if protocol == Protocol::Resp3 {
        out.push(b',');
        push_double(value, out);
        out.extend_from_slice(b"\r\n");
        return;
    }
    // No double has more than 99 characters: write it behind a length of two digits at most.
    let header = out.len();
    out.extend_from_slice(b"$00\r\n");
    let start = out.len();
    push_double(value, out);
    let len = out.len() - start;
    if len < 10 {
        out[header + 1] = b'0' + len as u8;
        out.remove(header + 2);
    } else {
        out[header + 1] = b'0' + (len / 10) as u8;
        out[header + 2] = b'0' + (len % 10) as u8;
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends the byte of the kind, a number, CR LF.
#[inline]
fn push_header(kind: u8, number: impl itoa::Integer, out: &mut Vec<u8>) {
    out.push(kind);
    push_int(number, out);
    out.extend_from_slice(b"\r\n");
}

/// Appends a header whose number is a length.
#[inline]
pub(super) fn push_len(kind: u8, len: usize, out: &mut Vec<u8>) {
    match len {
        0..10 => out.extend_from_slice(&[kind, b'0' + len as u8, b'\r', b'\n']),
        10..100 => out.extend_from_slice(&[
            kind,
            b'0' + (len / 10) as u8,
            b'0' + (len % 10) as u8,
            b'\r',
            b'\n',
        ]),
        _ => push_header(kind, len, out),
    }
}

#[inline]
pub(super) fn push_bulk(bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(bytes.len() + 16);
    push_len(b'$', bytes.len(), out);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// Appends text without the bytes that would break its line.
fn push_line(text: &str, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(text.as_bytes());
    for byte in &mut out[start..] {
        if matches!(byte, b'\r' | b'\n') {
            *byte = b' ';
        }
    }
}
