//! Ranges of a sorted set: by score, by bytes and by rank, as in the `ZRANGE` family.

use crate::kinds::zset::Value;
use crate::{ArgBuf, Args, Blob, ErrorReply, Reply, format_float, parse_float};

/// One end of a range of scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoreBound {
    /// The score; infinities are allowed.
    pub score: f64,
    /// Whether the score itself is outside.
    pub open: bool,
}

impl ScoreBound {
    fn parse(word: &[u8]) -> Result<Self, ErrorReply> {
        let digits = word.strip_prefix(b"(");
        let score = parse_float(digits.unwrap_or(word))
            .map_err(|_| ErrorReply::err("min or max is not a float"))?;
        Ok(Self { score, open: digits.is_some() })
    }

    fn word(&self) -> String {
        let text = format_float(self.score);
        if self.open { format!("({text}") } else { text }
    }
}

/// Scores between two bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoreRange {
    /// Lower end.
    pub min: ScoreBound,
    /// Upper end.
    pub max: ScoreBound,
}

impl ScoreRange {
    /// Reads the two bounds, the lower one first.
    pub fn parse(min: &[u8], max: &[u8]) -> Result<Self, ErrorReply> {
        Ok(Self { min: ScoreBound::parse(min)?, max: ScoreBound::parse(max)? })
    }

    fn starts_after(&self, score: f64) -> bool {
        score < self.min.score || (self.min.open && score == self.min.score)
    }

    fn ends_before(&self, score: f64) -> bool {
        score > self.max.score || (self.max.open && score == self.max.score)
    }

    /// Whether the score lies between the bounds.
    pub fn contains(&self, score: f64) -> bool {
        !self.starts_after(score) && !self.ends_before(score)
    }

    /// Whether no score lies in both ranges.
    pub fn is_apart(&self, other: &Self) -> bool {
        let apart = |low: &Self, high: &Self| {
            low.max.score < high.min.score
                || (low.max.score == high.min.score && (low.max.open || high.min.open))
        };
        apart(self, other) || apart(other, self)
    }
}

/// One end of a range of byte strings.
#[derive(Clone, Debug, PartialEq)]
pub enum LexBound {
    /// `-`: before all.
    Lowest,
    /// `+`: after all.
    Highest,
    /// `[member`: this one included.
    Closed(Blob),
    /// `(member`: this one excluded.
    Open(Blob),
}

impl LexBound {
    fn parse(word: &[u8]) -> Result<Self, ErrorReply> {
        match word {
            b"-" => Ok(Self::Lowest),
            b"+" => Ok(Self::Highest),
            [b'[', rest @ ..] => Ok(Self::Closed(rest.into())),
            [b'(', rest @ ..] => Ok(Self::Open(rest.into())),
            _ => Err(ErrorReply::err("min or max not valid string range item")),
        }
    }

    fn word(&self) -> Vec<u8> {
        let with = |mark: u8, member: &Blob| [&[mark], member.as_slice()].concat();
        match self {
            Self::Lowest => b"-".to_vec(),
            Self::Highest => b"+".to_vec(),
            Self::Closed(member) => with(b'[', member),
            Self::Open(member) => with(b'(', member),
        }
    }
}

/// Byte strings between two bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct LexRange {
    /// Lower end.
    pub min: LexBound,
    /// Upper end.
    pub max: LexBound,
}

impl LexRange {
    /// Reads the two bounds, the lower one first.
    pub fn parse(min: &[u8], max: &[u8]) -> Result<Self, ErrorReply> {
        Ok(Self { min: LexBound::parse(min)?, max: LexBound::parse(max)? })
    }

    fn starts_after(&self, member: &[u8]) -> bool {
        match &self.min {
            LexBound::Lowest => false,
            LexBound::Highest => true,
            LexBound::Closed(min) => member < min.as_slice(),
            LexBound::Open(min) => member <= min.as_slice(),
        }
    }

    fn ends_before(&self, member: &[u8]) -> bool {
        match &self.max {
            LexBound::Lowest => true,
            LexBound::Highest => false,
            LexBound::Closed(max) => member > max.as_slice(),
            LexBound::Open(max) => member >= max.as_slice(),
        }
    }

    /// Whether the member lies between the bounds.
    pub fn contains(&self, member: &[u8]) -> bool {
        !self.starts_after(member) && !self.ends_before(member)
    }
}

/// Selection of members.
#[derive(Clone, Debug, PartialEq)]
pub enum Range {
    /// Members with scores in a range.
    Score(ScoreRange),
    /// Members whose bytes are in a range (whatever their scores).
    Lex(Box<LexRange>),
    /// Members from one rank to another, both included; negative ranks count from the end.
    Rank(i64, i64),
}

impl Range {
    /// Writes the two bounds, the lower one first unless `swap`.
    pub fn encode(&self, swap: bool, out: &mut ArgBuf) {
        let (min, max) = match self {
            Self::Score(range) => (range.min.word().into_bytes(), range.max.word().into_bytes()),
            Self::Lex(range) => (range.min.word(), range.max.word()),
            Self::Rank(start, stop) => {
                out.push_int(*start).push_int(*stop);
                return;
            }
        };
        if swap {
            out.push(max).push(min)
        } else {
            out.push(min).push(max)
        };
    }
}

/// Kind of range that a command takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::kinds::zset) enum By {
    Rank,
    Score,
    Lex,
}

/// Arguments of the `ZRANGE` family.
#[derive(Clone, Debug, PartialEq)]
pub struct Select {
    /// Members to select.
    pub range: Range,
    /// Highest first. Ranks count from the highest then.
    pub rev: bool,
    /// Number of members to skip, and number to return (negative: all). Not by rank.
    pub limit: Option<(i64, i64)>,
    /// Whether scores are returned too.
    pub with_scores: bool,
}

impl Select {
    /// All members with their scores, lowest first.
    pub const ALL: Self =
        Self { range: Range::Rank(0, -1), rev: false, limit: None, with_scores: true };

    /// Reads bounds at word `at` and the options after them. `fixed` gives the kind and direction
    /// where the command's name implies them; otherwise options do. A `scored` selection has scores
    /// whatever its kind of range, and its words do not say so.
    pub(in crate::kinds::zset) fn parse(
        args: &Args<'_>,
        at: usize,
        fixed: Option<(By, bool)>,
        scored: bool,
    ) -> Result<Self, ErrorReply> {
        let (mut by, mut rev) = fixed.unwrap_or((By::Rank, false));
        let (mut limit, mut with_scores) = (None, scored);
        let mut i = at + 2;
        while i < args.len() {
            if !scored && args.is(i, "WITHSCORES") {
                with_scores = true;
            } else if args.is(i, "LIMIT") && i + 2 < args.len() {
                limit = Some((args.int(i + 1)?, args.int(i + 2)?));
                i += 2;
            } else if fixed.is_none() && args.is(i, "REV") {
                rev = true;
            } else if fixed.is_none() && args.is(i, "BYSCORE") {
                by = By::Score;
            } else if fixed.is_none() && args.is(i, "BYLEX") {
                by = By::Lex;
            } else {
                return Err(ErrorReply::syntax());
            }
            i += 1;
        }
        if limit.is_some() && by == By::Rank {
            return Err(ErrorReply::err(
                "syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
            ));
        }
        if with_scores && !scored && by == By::Lex {
            return Err(ErrorReply::err(
                "syntax error, WITHSCORES not supported in combination with BYLEX",
            ));
        }
        Ok(Self { range: parse_range(args, at, by, rev)?, rev, limit, with_scores })
    }

    /// Writes a command that makes the same selection.
    pub fn encode(&self, key: &[u8], out: &mut ArgBuf) {
        // `ZRANGE` cannot answer scores for ranges of bytes.
        let scored = self.with_scores && matches!(self.range, Range::Lex(_));
        out.push(if scored { "zset.scored" } else { "zrange" }).push(key);
        self.range.encode(self.rev, out);
        match self.range {
            Range::Score(_) => {
                out.push("byscore");
            }
            Range::Lex(_) => {
                out.push("bylex");
            }
            Range::Rank(..) => {}
        }
        if self.rev {
            out.push("rev");
        }
        if let Some((offset, count)) = self.limit {
            out.push("limit").push_int(offset).push_int(count);
        }
        if self.with_scores && !scored {
            out.push("withscores");
        }
    }
}

/// Reads a range at word `at`; the higher bound comes first if `rev`.
pub(in crate::kinds::zset) fn parse_range(
    args: &Args<'_>,
    at: usize,
    by: By,
    rev: bool,
) -> Result<Range, ErrorReply> {
    let word = |i: usize| args.get(i).ok_or_else(ErrorReply::syntax);
    let (min, max) = if rev { (at + 1, at) } else { (at, at + 1) };
    Ok(match by {
        By::Rank => Range::Rank(args.int(at)?, args.int(at + 1)?),
        By::Score => Range::Score(ScoreRange::parse(word(min)?, word(max)?)?),
        By::Lex => Range::Lex(Box::new(LexRange::parse(word(min)?, word(max)?)?)),
    })
}

/// First rank and number of the entries from rank `start` to `stop`, of `len`.
fn resolve_ranks(start: i64, stop: i64, len: usize) -> (usize, usize) {
    let len = len as i64;
    let from_end = |rank: i64| if rank < 0 { rank.saturating_add(len) } else { rank };
    let (start, stop) = (from_end(start).max(0), from_end(stop).min(len - 1));
    if start > stop { (0, 0) } else { (start as usize, (stop - start + 1) as usize) }
}

impl Value {
    /// First rank and number of the members in a range, if they are consecutive.
    pub(in crate::kinds::zset) fn slice(&self, range: &Range, rev: bool) -> Option<(usize, usize)> {
        let len = self.order.len();
        let (low, high) = match range {
            Range::Rank(start, stop) => {
                let (first, count) = resolve_ranks(*start, *stop, len);
                return Some((if rev { len - first - count } else { first }, count));
            }
            Range::Score(range) => (
                self.order.partition_point(|score, _| range.starts_after(score)),
                self.order.partition_point(|score, _| !range.ends_before(score)),
            ),
            Range::Lex(range) => {
                // Members sort by their bytes only where all scores are the same.
                if self.order.first().map(|e| e.0) != self.order.last().map(|e| e.0) {
                    return None;
                }
                (
                    self.order.partition_point(|_, member| range.starts_after(member)),
                    self.order.partition_point(|_, member| !range.ends_before(member)),
                )
            }
        };
        Some((low, high.saturating_sub(low)))
    }

    /// How many members are in a range.
    pub(in crate::kinds::zset) fn count(&self, range: &Range) -> usize {
        match (self.slice(range, false), range) {
            (Some((_, count)), _) => count,
            (None, Range::Lex(lex)) => self.scores.keys().filter(|m| lex.contains(m)).count(),
            (None, _) => 0,
        }
    }

    /// The selected members, in order.
    pub(in crate::kinds::zset) fn select(&self, select: &Select) -> Vec<(Blob, f64)> {
        let (offset, limit) = match select.limit {
            None => (0, usize::MAX),
            Some((offset, _)) if offset < 0 => return Vec::new(),
            Some((offset, count)) => {
                (offset as usize, usize::try_from(count).unwrap_or(usize::MAX))
            }
        };
        let own = |(score, member): (f64, &Blob)| (member.clone(), score);
        match (self.slice(&select.range, select.rev), &select.range) {
            (Some((first, count)), _) => {
                let left = count.saturating_sub(offset).min(limit);
                if left == 0 {
                    return Vec::new();
                }
                let start = if select.rev { first + count - 1 - offset } else { first + offset };
                self.order.walk(start, select.rev).take(left).map(own).collect()
            }
            (None, Range::Lex(lex)) => {
                let start = if select.rev { self.order.len() - 1 } else { 0 };
                let found = self.order.walk(start, select.rev).filter(|(_, m)| lex.contains(m));
                found.skip(offset).take(limit).map(own).collect()
            }
            (None, _) => Vec::new(),
        }
    }

    /// The reply to a command of the `ZRANGE` family.
    pub(in crate::kinds::zset) fn select_reply(&self, select: &Select) -> Reply {
        let found = self.select(select);
        if select.with_scores {
            Reply::Scored(found)
        } else {
            Reply::Array(found.into_iter().map(|(member, _)| Reply::Bulk(member)).collect())
        }
    }
}
