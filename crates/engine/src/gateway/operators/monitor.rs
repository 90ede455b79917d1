//! `MONITOR`: connections that see the commands of all clients of a machine.

use super::words::{REDACTED, secret_from};
use crate::gateway::api::SessionId;
use crate::ids::GatewayId;
use crate::limits::{MONITOR_LINE_BYTES_MAX, MONITOR_WORD_BYTES_MAX, MONITORS_MAX};
use crate::now::Now;
use adt::{Args, Blob, CommandSpec, ErrorReply};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Connections that monitor, of this gateway and others.
#[derive(Default)]
pub struct Monitors {
    /// Sessions of this gateway.
    pub own: BTreeSet<SessionId>,
    /// Other gateways that have such sessions.
    pub others: BTreeSet<GatewayId>,
    /// Lines for them.
    pub lines: Vec<Blob>,
}

impl Monitors {
    /// Whether commands are monitored.
    #[inline]
    pub fn watch(&self) -> bool {
        !self.own.is_empty() || !self.others.is_empty()
    }

    /// Whether a session monitors.
    pub fn has(&self, id: SessionId) -> bool {
        self.own.contains(&id)
    }

    /// Whether lines are to be sent to other gateways.
    #[inline]
    pub fn have_lines(&self) -> bool {
        !self.lines.is_empty()
    }

    /// Adds a session of this gateway. Fails if there are too many.
    pub fn add(&mut self, id: SessionId) -> Result<(), ErrorReply> {
        if self.own.len() >= MONITORS_MAX && !self.has(id) {
            let text = format!("at most {MONITORS_MAX} connections of a worker can monitor it");
            return Err(ErrorReply::err(text));
        }
        self.own.insert(id);
        Ok(())
    }

    /// Notes whether another gateway has sessions that monitor.
    pub fn follow(&mut self, gateway: GatewayId, on: bool) {
        if on {
            self.others.insert(gateway);
        } else {
            self.others.remove(&gateway);
        }
    }
}

/// Line about a command, in Redis' form.
pub(super) fn line(
    now: Now,
    database: u8,
    peer: &str,
    (spec, args): (&CommandSpec, &Args<'_>),
) -> String {
    let (s, us) = (now.wall_us / 1_000_000, now.wall_us % 1_000_000);
    let mut line = format!("{s}.{us:06} [{database} {peer}]");
    let secret_from = secret_from(spec, args);
    for (index, word) in args.iter_from(0).enumerate() {
        if line.len() > MONITOR_LINE_BYTES_MAX {
            let more = args.len() - index;
            add(&mut line, format_args!(" \"... ({more} more arguments)\""));
            break;
        }
        let word = if index < secret_from { word } else { REDACTED };
        let shown = &word[..word.len().min(MONITOR_WORD_BYTES_MAX)];
        line.push_str(" \"");
        shown.iter().for_each(|byte| escape(*byte, &mut line));
        if shown.len() < word.len() {
            add(&mut line, format_args!("... ({} more bytes)", word.len() - shown.len()));
        }
        line.push('"');
    }
    line
}

fn escape(byte: u8, line: &mut String) {
    match byte {
        b'\\' => line.push_str("\\\\"),
        b'"' => line.push_str("\\\""),
        b'\n' => line.push_str("\\n"),
        b'\r' => line.push_str("\\r"),
        b'\t' => line.push_str("\\t"),
        0x07 => line.push_str("\\a"),
        0x08 => line.push_str("\\b"),
        b' '..=b'~' => line.push(char::from(byte)),
        _ => add(line, format_args!("\\x{byte:02x}")),
    }
}

fn add(line: &mut String, text: std::fmt::Arguments<'_>) {
    line.write_fmt(text).expect("writing to memory");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::clients::session_commands::lookup;
    use adt::ArgBuf;

    fn shown(words: &[&str]) -> String {
        let words = ArgBuf::of(words.iter());
        let spec = lookup(words.args().get(0).unwrap()).unwrap();
        line(Now { wall_us: 1_000_007, mono_us: 0 }, 3, "1.2.3.4:5", (spec, &words.args()))
    }

    #[test]
    fn a_line_is_one_line_whatever_is_in_the_command() {
        let text = shown(&["SET", "a\r\nb", "\"\\\t\u{7}\u{8}\0ü"]);
        let words = r#""SET" "a\r\nb" "\"\\\t\a\b\x00\xc3\xbc""#;
        assert_eq!(text, format!("1.000007 [3 1.2.3.4:5] {words}"));
    }

    #[test]
    fn passwords_are_not_in_a_line_and_long_commands_are_cut() {
        assert!(shown(&["AUTH", "ann", "geheim"]).ends_with(r#""AUTH" "(redacted)" "(redacted)""#));
        let long = "x".repeat(2 * MONITOR_WORD_BYTES_MAX);
        let many = vec![long.as_str(); 1_000];
        let words: Vec<&str> = std::iter::once("DEL").chain(many).collect();
        let text = shown(&words);
        assert!(text.len() < MONITOR_LINE_BYTES_MAX + 2 * MONITOR_WORD_BYTES_MAX);
        assert!(text.ends_with("more arguments)\"") && text.contains("more bytes)\""));
    }

    #[test]
    fn only_so_many_connections_monitor() {
        let mut monitors = Monitors::default();
        assert!(!monitors.watch());
        for id in 0..MONITORS_MAX as u64 {
            monitors.add(SessionId(id)).unwrap();
        }
        assert!(monitors.add(SessionId(0)).is_ok());
        assert!(monitors.add(SessionId(u64::MAX)).unwrap_err().text().contains("at most"));
    }
}
