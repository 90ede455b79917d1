//! Placement rules in the shard map: those with which a cluster was founded, a line `place bull:*:` each.

use super::map::{MapError, ShardMap};
use adt::command::tags::TagRules;
use adt::random::mix;

impl ShardMap {
    /// The map of a cluster that is founded with placement rules.
    pub fn with_rules(self, tags: TagRules) -> Self {
        Self { tags, ..self }
    }
}

/// Digest of placement rules, by which machines find out whether they have the same; empty for none.
pub fn digest(tags: &TagRules) -> String {
    if tags.is_empty() {
        return String::new();
    }
    let text = rules_text(tags);
    let digest = text.bytes().fold(0, |digest, byte| mix(digest ^ u64::from(byte)));
    format!("{digest:016x}")
}

/// Placement rules as a map writes them. A server that is alone has them without a map.
pub fn rules_text(tags: &TagRules) -> String {
    tags.texts().iter().map(|rule| format!("place {rule}\n")).collect()
}

/// Placement rules in the text of a map, or of rules alone.
///
/// # Errors
/// If one of them is none.
pub fn parse_rules(text: &str) -> Result<TagRules, MapError> {
    let rules: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("place ")).collect();
    TagRules::parse(&rules).map_err(MapError::new)
}
