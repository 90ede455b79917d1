//! Arguments and replies of `SCAN` and of its forms within one value.

use super::glob;
use crate::collections;
use crate::{ArgBuf, Args, Blob, ErrorReply, Reply};

/// Arguments of the `SCAN` family within one value.
#[derive(Clone, Debug, PartialEq)]
pub struct ScanArgs {
    /// Cursor that the last step returned; 0 to begin.
    pub cursor: u64,
    /// Glob that results must match.
    pub pattern: Option<Blob>,
    /// About how many entries to visit.
    pub count: u64,
}

impl ScanArgs {
    /// Parses the words from the cursor at position `at` on.
    pub fn parse(args: &Args<'_>, at: usize) -> Result<Self, ErrorReply> {
        let cursor = args.get(at).and_then(|w| std::str::from_utf8(w).ok()?.parse().ok());
        let cursor = cursor.ok_or_else(|| ErrorReply::err("invalid cursor"))?;
        let mut scan = Self { cursor, pattern: None, count: 10 };
        let mut i = at + 1;
        while i < args.len() {
            if args.is(i, "MATCH") {
                scan.pattern = Some(args.blob(i + 1)?);
            } else if args.is(i, "COUNT") {
                let count = args.int(i + 1)?;
                if count < 1 {
                    return Err(ErrorReply::syntax());
                }
                scan.count = (count as u64).min(SCAN_COUNT_MAX);
            } else {
                return Err(ErrorReply::syntax());
            }
            i += 2;
        }
        Ok(scan)
    }

    /// Writes the words that [`ScanArgs::parse`] reads.
    pub fn encode(&self, out: &mut ArgBuf) {
        out.push(self.cursor.to_string());
        if let Some(pattern) = &self.pattern {
            out.push("match").push(pattern);
        }
        out.push("count").push_int(self.count as i64);
    }

    /// Whether an entry's name passes the pattern.
    pub fn passes(&self, name: &[u8]) -> bool {
        self.pattern.as_ref().is_none_or(|p| glob::matches(p, name))
    }

    /// Does the step over `len` entries; `visit` adds the replies for a position.
    pub fn run(&self, len: usize, mut visit: impl FnMut(usize, &mut Vec<Reply>)) -> Reply {
        let mut found = Vec::new();
        let next =
            collections::scan(len, self.cursor, self.count as usize, |i| visit(i, &mut found));
        Reply::Array(vec![Reply::bulk(next.to_string()), Reply::Array(found)])
    }
}

/// Most entries that one step visits, whatever `COUNT` says: a step stays short.
pub const SCAN_COUNT_MAX: u64 = 10_000;
