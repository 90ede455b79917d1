//! Quotas as ZooKeeper's clients set and list them: nodes below `/zookeeper/quota` that hold a limit and
//! how much there is. As in ZooKeeper unless it is told otherwise, nobody is refused anything.

use super::path;
use super::tree::Tree;
use adt::Blob;

const QUOTAS: &[u8] = b"/zookeeper/quota";
const STATS: &[u8] = b"zookeeper_stats";

/// The node that a node's data tell the size of, if they do.
pub fn measured(path: &[u8]) -> Option<&[u8]> {
    let (parent, name) = path::split(path)?;
    let of = parent.strip_prefix(QUOTAS)?;
    (name == STATS && of.first() == Some(&b'/')).then_some(of)
}

/// How many nodes there are at and below a node, and how many bytes of data they have, as
/// ZooKeeper's `StatsTrack` writes it.
pub fn measure(tree: &Tree, root: &[u8]) -> Blob {
    let (mut count, mut bytes) = (0, 0);
    for (_, node) in tree.below(root) {
        count += 1;
        bytes += node.data.as_ref().map_or(0, |data| data.len());
    }
    Blob::from(format!("count={count},bytes={bytes}"))
}
