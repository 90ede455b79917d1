//! Quotas as ZooKeeper's clients set and list them: two nodes below `/zookeeper/quota`, followed by the
//! path that they are for. One holds the limits, the other tells how much there is.
//!
//! What there is, is counted as nodes come and go: it follows from the tree, and no snapshot has it. A
//! quota holds as long as both of its nodes are there.

use super::path;
use super::request::Code;
use adt::Blob;
use std::collections::BTreeMap;

/// Where the nodes of all quotas are.
pub const ALL: &[u8] = b"/zookeeper/quota";
const LIMITS: &[u8] = b"zookeeper_limits";
const STATS: &[u8] = b"zookeeper_stats";

/// What a node of a quota is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// It holds the limits.
    Limits,
    /// It tells how much there is.
    Stats,
}

/// The node that a node has to do with the quota of, if it does, and what.
pub fn part(path: &[u8]) -> Option<(&[u8], Part)> {
    let (parent, name) = path::split(path)?;
    let of = parent.strip_prefix(ALL)?;
    let part = match name {
        LIMITS => Part::Limits,
        STATS => Part::Stats,
        _ => return None,
    };
    // As in ZooKeeper, there is none for the root.
    (of.first() == Some(&b'/')).then_some((of, part))
}

/// How much there is at and below a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Nodes.
    pub nodes: u64,
    /// Bytes of their data.
    pub bytes: u64,
}

impl Usage {
    /// In the words of ZooKeeper's `StatsTrack`.
    pub fn told(&self) -> Blob {
        Blob::from(format!("count={},bytes={}", self.nodes, self.bytes))
    }
}

/// What is too much.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Limit {
    /// Is counted.
    soft: Option<u64>,
    /// Is refused.
    hard: Option<u64>,
}

impl Limit {
    fn is_exceeded(self, by: u64) -> bool {
        [self.soft, self.hard].into_iter().flatten().any(|most| by > most)
    }

    /// Whether this much more is refused. Where there was too much before, less is not.
    fn refuses(self, used: u64, more: u64) -> bool {
        more > 0 && self.hard.is_some_and(|most| used.saturating_add(more) > most)
    }
}

/// What the node of the limits says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Limits {
    nodes: Limit,
    bytes: Limit,
}

impl Limits {
    /// ZooKeeper's `StatsTrack`: `count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=5` and what is
    /// shorter. Less than nought is no limit; what does not read limits nothing.
    fn of(data: Option<&Blob>) -> Self {
        let text = data.map(|data| String::from_utf8_lossy(data)).unwrap_or_default();
        let mut limits = Self::default();
        for word in text.split([',', ';']).filter(|word| !word.is_empty()) {
            let mut sides = word.trim_end_matches('=').splitn(2, '=');
            let (name, value) = (sides.next().unwrap_or_default(), sides.next());
            let Some(Ok(number)) = value.map(str::parse::<i64>) else { return Self::default() };
            let limit = u64::try_from(number).ok();
            match name {
                "count" => limits.nodes.soft = limit,
                "bytes" => limits.bytes.soft = limit,
                "countHardLimit" => limits.nodes.hard = limit,
                "byteHardLimit" => limits.bytes.hard = limit,
                _ => {}
            }
        }
        limits
    }
}

/// One quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Quota {
    /// What the one node says, if it is there.
    limits: Option<Limits>,
    /// Whether the other one is there.
    has_stats: bool,
    used: Usage,
}

impl Quota {
    fn limits(&self) -> Option<Limits> {
        self.limits.filter(|_| self.has_stats)
    }
}

/// All quotas by the path that they are for: at most one for each node below `/zookeeper/quota`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quotas {
    of: BTreeMap<Blob, Quota>,
}

impl Quotas {
    /// A node of a quota is there, with these data. What there is at the path of the quota is looked up
    /// if nobody has counted so far.
    pub fn begin(
        &mut self,
        of: &[u8],
        part: Part,
        data: Option<&Blob>,
        used: impl FnOnce() -> Usage,
    ) {
        let quota = self
            .of
            .entry(Blob::new(of))
            .or_insert_with(|| Quota { used: used(), ..Quota::default() });
        match part {
            Part::Limits => quota.limits = Some(Limits::of(data)),
            Part::Stats => quota.has_stats = true,
        }
    }

    /// A node of a quota is not there any more.
    pub fn end(&mut self, of: &[u8], part: Part) {
        let Some(quota) = self.of.get_mut(of) else { return };
        match part {
            Part::Limits => quota.limits = None,
            Part::Stats => quota.has_stats = false,
        }
        if quota.limits.is_none() && !quota.has_stats {
            self.of.remove(of);
        }
    }

    /// There is more, or less, at a path than there was.
    pub fn count(&mut self, path: &[u8], nodes: i64, bytes: i64) {
        if self.of.is_empty() {
            return;
        }
        for above in path::upwards(path) {
            if let Some(Quota { used, .. }) = self.of.get_mut(above) {
                used.nodes = used.nodes.wrapping_add_signed(nodes);
                used.bytes = used.bytes.wrapping_add_signed(bytes);
            }
        }
    }

    /// Whether there may be so much more at a path.
    ///
    /// # Errors
    /// [`Code::QuotaExceeded`]: a hard limit of it or of a node above would be exceeded.
    pub fn check(&self, path: &[u8], nodes: u64, bytes: u64) -> Result<(), Code> {
        if self.of.is_empty() {
            return Ok(());
        }
        let quotas = path::upwards(path).filter_map(|above| self.of.get(above));
        for (quota, limits) in quotas.filter_map(|quota| Some((quota, quota.limits()?))) {
            let Usage { nodes: nodes_used, bytes: bytes_used } = quota.used;
            if limits.nodes.refuses(nodes_used, nodes) || limits.bytes.refuses(bytes_used, bytes) {
                return Err(Code::QuotaExceeded);
            }
        }
        Ok(())
    }

    /// How much there is at a path that has a quota.
    pub fn usage(&self, of: &[u8]) -> Option<Usage> {
        self.of.get(of).map(|quota| quota.used)
    }

    /// How many quotas there are, and of how many there is more than they allow, softly or not.
    pub fn counted(&self) -> (usize, usize) {
        let held = self.of.values().filter_map(|quota| Some((quota.used, quota.limits()?)));
        held.fold((0, 0), |(all, over), (used, limits)| {
            let is_over =
                limits.nodes.is_exceeded(used.nodes) || limits.bytes.is_exceeded(used.bytes);
            (all + 1, over + usize::from(is_over))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(text: &str) -> [Option<u64>; 4] {
        let Limits { nodes, bytes } = Limits::of(Some(&Blob::from(text)));
        [nodes.soft, nodes.hard, bytes.soft, bytes.hard]
    }

    #[test]
    fn limits_are_read_in_all_forms_that_zookeeper_has_written() {
        assert_eq!(limits("count=5,bytes=-1"), [Some(5), None, None, None]);
        let newer = "count=-1,bytes=7=;byteHardLimit=9;countHardLimit=0";
        assert_eq!(limits(newer), [None, Some(0), Some(7), Some(9)]);
        assert_eq!(limits("byteHardLimit=1;count=-1;later=3"), [None, None, None, Some(1)]);
        for nothing in ["", "nonsense", "count=x", "count=1,bytes", "count=", "=", "\u{fffd}"] {
            assert_eq!(limits(nothing), [None; 4], "{nothing:?}");
        }
        assert_eq!(Limits::of(None), Limits::default());
    }

    #[test]
    fn nodes_of_quotas_are_told_from_others() {
        let path = |text: &str| part(text.as_bytes()).map(|(of, part)| (of.to_vec(), part));
        let limits = path("/zookeeper/quota/a/b/zookeeper_limits");
        assert_eq!(limits, Some((b"/a/b".to_vec(), Part::Limits)));
        assert_eq!(path("/zookeeper/quota/a/zookeeper_stats"), Some((b"/a".to_vec(), Part::Stats)));
        for other in [
            "/",
            "/zookeeper/quota",
            "/zookeeper/quota/zookeeper_stats",
            "/zookeeper/quotas/a/zookeeper_limits",
            "/zookeeper/quota/a/zookeeper_other",
            "/a/zookeeper_limits",
        ] {
            assert_eq!(path(other), None, "{other}");
        }
    }
}
