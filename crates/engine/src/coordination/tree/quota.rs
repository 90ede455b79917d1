//! Quotas, as ZooKeeper's clients set and list them: two nodes below `/zookeeper/quota` and the
//! path that they limit. One holds the limits, the other reports the usage.
//!
//! Usage is counted as nodes come and go: it follows from the tree, and no snapshot holds it. A
//! quota is in force while both of its nodes exist.

use super::path;
use crate::coordination::request::Code;
use adt::Blob;
use std::collections::BTreeMap;

/// Parent of the nodes of all quotas.
pub const ALL: &[u8] = b"/zookeeper/quota";
const LIMITS: &[u8] = b"zookeeper_limits";
const STATS: &[u8] = b"zookeeper_stats";

/// Role of a quota's node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaNode {
    /// Limits of the quota.
    Limits,
    /// Usage of the quota.
    Stats,
}

/// Limited path and role of a quota's node; none for other nodes.
pub fn part(path: &[u8]) -> Option<(&[u8], QuotaNode)> {
    let (parent, name) = path::split(path)?;
    let of = parent.strip_prefix(ALL)?;
    let part = match name {
        LIMITS => QuotaNode::Limits,
        STATS => QuotaNode::Stats,
        _ => return None,
    };
    // As in ZooKeeper, the root has no quota.
    (of.first() == Some(&b'/')).then_some((of, part))
}

/// Usage at and below a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Number of nodes.
    pub nodes: u64,
    /// Bytes of their data.
    pub bytes: u64,
}

impl Usage {
    /// Usage in the format of ZooKeeper's `StatsTrack`.
    pub fn report(&self) -> Blob {
        Blob::from(format!("count={},bytes={}", self.nodes, self.bytes))
    }
}

/// Pair of limits; `None` is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Limit {
    /// Usage above it is reported.
    soft: Option<u64>,
    /// Usage above it is refused.
    hard: Option<u64>,
}

impl Limit {
    fn is_exceeded(self, by: u64) -> bool {
        [self.soft, self.hard].into_iter().flatten().any(|most| by > most)
    }

    /// Whether an increase by `more` is refused. A decrease is not, even if usage was above the
    /// limit.
    fn refuses(self, used: u64, more: u64) -> bool {
        more > 0 && self.hard.is_some_and(|most| used.saturating_add(more) > most)
    }
}

/// Content of the node with the limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Limits {
    nodes: Limit,
    bytes: Limit,
}

impl Limits {
    /// Parses ZooKeeper's `StatsTrack`: `count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=5` and
    /// shorter forms. Negative numbers are no limit; unreadable data limit nothing.
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
    /// Content of the node with the limits, if it exists.
    limits: Option<Limits>,
    /// Whether the node with the usage exists.
    has_stats: bool,
    used: Usage,
}

impl Quota {
    fn limits(&self) -> Option<Limits> {
        self.limits.filter(|_| self.has_stats)
    }
}

/// All quotas by the path that they limit: at most one for each node below `/zookeeper/quota`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quotas {
    of: BTreeMap<Blob, Quota>,
}

impl Quotas {
    /// Registers a quota's node with its data. Computes the usage of its path if it is the first
    /// node of the quota.
    pub fn begin(
        &mut self,
        of: &[u8],
        part: QuotaNode,
        data: Option<&Blob>,
        used: impl FnOnce() -> Usage,
    ) {
        let quota = self
            .of
            .entry(Blob::new(of))
            .or_insert_with(|| Quota { used: used(), ..Quota::default() });
        match part {
            QuotaNode::Limits => quota.limits = Some(Limits::of(data)),
            QuotaNode::Stats => quota.has_stats = true,
        }
    }

    /// Unregisters a quota's node.
    pub fn end(&mut self, of: &[u8], part: QuotaNode) {
        let Some(quota) = self.of.get_mut(of) else { return };
        match part {
            QuotaNode::Limits => quota.limits = None,
            QuotaNode::Stats => quota.has_stats = false,
        }
        if quota.limits.is_none() && !quota.has_stats {
            self.of.remove(of);
        }
    }

    /// Adds to the usage of all quotas at or above a path.
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

    /// Checks whether usage at a path may grow by so much.
    ///
    /// # Errors
    /// [`Code::QuotaExceeded`]: a hard limit of the path or of a node above would be exceeded.
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

    /// Usage at a path that has a quota.
    pub fn usage(&self, of: &[u8]) -> Option<Usage> {
        self.of.get(of).map(|quota| quota.used)
    }

    /// Number of quotas, and of those whose soft or hard limit is exceeded.
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
    fn nodes_of_quotas_are_recognized() {
        let path = |text: &str| part(text.as_bytes()).map(|(of, part)| (of.to_vec(), part));
        let limits = path("/zookeeper/quota/a/b/zookeeper_limits");
        assert_eq!(limits, Some((b"/a/b".to_vec(), QuotaNode::Limits)));
        assert_eq!(
            path("/zookeeper/quota/a/zookeeper_stats"),
            Some((b"/a".to_vec(), QuotaNode::Stats))
        );
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
