//! `LCS`: the longest common subsequence of two strings.
//!
//! The lengths of the subsequences of all pairs of prefixes form a table, of which each row grows by at
//! most one from column to column. So a row is a bit for each column, and the next row follows from it by
//! arithmetic on words: see Hyyrö, "Bit-parallel LCS-length computation revisited" (2004). The way back
//! through the table is that of Redis, so that the same subsequence is found where there are several.

use super::Op;
use crate::{Args, Blob, Command, ErrorReply, Merge, Op as AnyOp, Reply};
use std::sync::Arc;

/// Largest product of the lengths of two strings that `LCS` compares: some tens of milliseconds of work.
pub const LCS_CELLS_MAX: u64 = 1 << 28;

/// Parts of the result that a client asks for.
#[derive(Clone, Copy, Debug, Default)]
struct Options {
    only_len: bool,
    matches: bool,
    /// Shortest match that is reported.
    match_len_min: u64,
    with_match_len: bool,
}

/// A part that both strings have in common: first positions and length.
struct Match {
    left: usize,
    right: usize,
    len: usize,
}

pub(super) fn parse(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let mut options = Options::default();
    let mut i = 3;
    while i < args.len() {
        match () {
            () if args.is(i, "IDX") => options.matches = true,
            () if args.is(i, "LEN") => options.only_len = true,
            () if args.is(i, "WITHMATCHLEN") => options.with_match_len = true,
            () if args.is(i, "MINMATCHLEN") && i + 1 < args.len() => {
                // A negative length is none, as in Redis.
                options.match_len_min = u64::try_from(args.int(i + 1)?).unwrap_or(0);
                i += 1;
            }
            () => return Err(ErrorReply::syntax()),
        }
        i += 1;
    }
    if options.matches && options.only_len {
        let text = "If you want both the length and indexes, please just use IDX.";
        return Err(ErrorReply::err(text));
    }
    let ops =
        vec![(args.blob(1)?, AnyOp::String(Op::Get)), (args.blob(2)?, AnyOp::String(Op::Get))];
    Ok(Command::Multi { ops, merge: Merge::All(Arc::new(move |replies| options.reply(&replies))) })
}

fn string(reply: Option<&Reply>) -> Result<Blob, ErrorReply> {
    match reply {
        Some(Reply::Bulk(bytes)) => Ok(bytes.clone()),
        Some(Reply::Error(error)) if *error == ErrorReply::wrong_type() => {
            Err(ErrorReply::err("The specified keys must contain string values"))
        }
        Some(Reply::Error(error)) => Err(error.clone()),
        _ => Ok(Blob::default()),
    }
}

impl Options {
    fn reply(self, replies: &[Reply]) -> Reply {
        let strings = string(replies.first()).and_then(|left| Ok((left, string(replies.get(1))?)));
        match strings {
            Ok((left, right)) => self.compare(&left, &right),
            Err(error) => error.into(),
        }
    }

    fn compare(self, left: &[u8], right: &[u8]) -> Reply {
        if left.len() as u64 * right.len() as u64 > LCS_CELLS_MAX {
            let text = format!(
                "the product of the lengths of both strings is above the limit of {LCS_CELLS_MAX}"
            );
            return Reply::err(text);
        }
        let table = Table::new(left, right, !self.only_len);
        let len = table.len();
        if self.only_len {
            return Reply::Int(len as i64);
        }
        let matches = table.matches(left, right, len);
        if !self.matches {
            let common = matches.iter().rev().flat_map(|m| &left[m.left..m.left + m.len]);
            return Reply::bulk(common.copied().collect::<Vec<u8>>());
        }
        let long = matches.iter().filter(|m| m.len as u64 >= self.match_len_min);
        let matches = long.map(|m| m.reply(self.with_match_len)).collect();
        Reply::Map(vec![
            (Reply::bulk("matches"), Reply::Array(matches)),
            (Reply::bulk("len"), Reply::Int(len as i64)),
        ])
    }
}

impl Match {
    fn reply(&self, with_len: bool) -> Reply {
        let int = |number: usize| Reply::Int(number as i64);
        let span = |at: usize| Reply::Array(vec![int(at), int(at + self.len - 1)]);
        let mut parts = vec![span(self.left), span(self.right)];
        parts.extend(with_len.then(|| int(self.len)));
        Reply::Array(parts)
    }
}

/// Rows of the table, one for each prefix of the left string. A bit of a row is clear where the length
/// grows from one column to the next.
struct Table {
    /// All rows if the way back is wanted, otherwise the last.
    rows: Vec<u64>,
    /// Words of a row.
    words: usize,
    /// Columns.
    columns: usize,
}

impl Table {
    fn new(left: &[u8], right: &[u8], keeps_all: bool) -> Self {
        let words = right.len().div_ceil(64);
        let (masks, places) = masks(left, right, words);
        let mut rows = vec![u64::MAX; words];
        if keeps_all {
            rows.reserve_exact(words * left.len());
        }
        for byte in left {
            let begin = rows.len() - words;
            if keeps_all {
                rows.extend_from_within(begin..);
            }
            let begin = rows.len() - words;
            let place = places[usize::from(*byte)] * words;
            advance(&mut rows[begin..], &masks[place..place + words]);
        }
        Self { rows, words, columns: right.len() }
    }

    /// Length of the longest common subsequence of both strings.
    fn len(&self) -> usize {
        let last = self.rows.len() - self.words;
        grown(&self.rows[last..], self.columns)
    }

    /// Parts of the longest common subsequence of that length, from the last to the first.
    fn matches(&self, left: &[u8], right: &[u8], len: usize) -> Vec<Match> {
        let (mut i, mut j) = (left.len(), right.len());
        // Length for the prefixes up to here.
        let mut here = len;
        let mut matches: Vec<Match> = Vec::new();
        let mut goes_on = false;
        while i > 0 && j > 0 {
            if left[i - 1] == right[j - 1] {
                (i, j, here) = (i - 1, j - 1, here - 1);
                match matches.last_mut().filter(|_| goes_on) {
                    Some(last) => *last = Match { left: i, right: j, len: last.len + 1 },
                    None => matches.push(Match { left: i, right: j, len: 1 }),
                }
                goes_on = true;
                continue;
            }
            goes_on = false;
            let row = |i: usize| &self.rows[i * self.words..(i + 1) * self.words];
            // Without the last byte of one of the strings.
            let without_left = grown(row(i - 1), j);
            let grows = row(i)[(j - 1) / 64] & (1 << ((j - 1) % 64)) == 0;
            let without_right = here - usize::from(grows);
            if without_left > without_right {
                (i, here) = (i - 1, without_left);
            } else {
                (j, here) = (j - 1, without_right);
            }
        }
        matches
    }
}

/// For each byte that the left string has, the columns of the right one with it, and the places of the
/// bytes among these.
fn masks(left: &[u8], right: &[u8], words: usize) -> (Vec<u64>, [usize; 256]) {
    let mut places = [usize::MAX; 256];
    let mut count = 0;
    for byte in left {
        let place = &mut places[usize::from(*byte)];
        if *place == usize::MAX {
            *place = count;
            count += 1;
        }
    }
    let mut masks = vec![0_u64; count * words];
    for (column, byte) in right.iter().enumerate() {
        let place = places[usize::from(*byte)];
        if place != usize::MAX {
            masks[place * words + column / 64] |= 1 << (column % 64);
        }
    }
    (masks, places)
}

/// Makes the next row of a row.
fn advance(row: &mut [u64], mask: &[u64]) {
    let mut carry = false;
    for (bits, mask) in row.iter_mut().zip(mask) {
        let (sum, over) = bits.overflowing_add(*bits & mask);
        let (sum, over_again) = sum.overflowing_add(u64::from(carry));
        carry = over || over_again;
        *bits = sum | (*bits & !mask);
    }
}

/// How often the length grows in the first columns of a row.
fn grown(row: &[u64], columns: usize) -> usize {
    let whole = row[..columns / 64].iter().map(|bits| bits.count_zeros() as usize).sum::<usize>();
    let rest = columns % 64;
    if rest == 0 {
        return whole;
    }
    let bits = !row[columns / 64] & ((1 << rest) - 1);
    whole + bits.count_ones() as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random;

    /// The table as it is in textbooks, and Redis' way back through it.
    fn textbook(left: &[u8], right: &[u8]) -> Vec<u8> {
        let mut table = vec![vec![0; right.len() + 1]; left.len() + 1];
        for i in 1..=left.len() {
            for j in 1..=right.len() {
                table[i][j] = match left[i - 1] == right[j - 1] {
                    true => table[i - 1][j - 1] + 1,
                    false => table[i - 1][j].max(table[i][j - 1]),
                };
            }
        }
        let (mut i, mut j, mut found) = (left.len(), right.len(), Vec::new());
        while i > 0 && j > 0 {
            if left[i - 1] == right[j - 1] {
                found.push(left[i - 1]);
                (i, j) = (i - 1, j - 1);
            } else if table[i - 1][j] > table[i][j - 1] {
                i -= 1;
            } else {
                j -= 1;
            }
        }
        found.reverse();
        found
    }

    #[test]
    fn the_subsequence_is_that_of_the_textbook() {
        let mut seed = 1;
        let mut string = |letters: u64, len: u64| -> Vec<u8> {
            seed = random::mix(seed);
            let len = seed % len;
            (0..len)
                .map(|_| {
                    seed = random::mix(seed);
                    b'a' + (seed % letters) as u8
                })
                .collect()
        };
        for round in 0..2_000 {
            let letters = 1 + round % 20;
            let (left, right) = (string(letters, 200), string(letters, 200));
            let common = textbook(&left, &right);
            let found = Options::default().compare(&left, &right);
            assert_eq!(found, Reply::bulk(&common), "{left:?} {right:?}");
            let only_len = Options { only_len: true, ..Options::default() };
            assert_eq!(only_len.compare(&left, &right), Reply::Int(common.len() as i64));
        }
    }

    #[test]
    fn strings_that_are_too_long_are_refused_with_the_limit() {
        let long = vec![b'a'; 1 << 15];
        let Reply::Error(error) = Options::default().compare(&long, &long) else {
            panic!("compared")
        };
        assert!(error.text().contains("limit of 268435456"), "{error}");
        // A long one and a short one are not too long.
        let longest = vec![b'a'; 8 << 20];
        let common = Options::default().compare(&longest, b"aba");
        assert_eq!(common, Reply::bulk("aa"));
    }
}
