//! File of peers: the participants and their addresses.
//!
//! One node per line, a name and an address; what follows a `#` is a comment. Nodes are numbered in
//! the order of their names, so that files with other orders mean the same.
//!
//! ```text
//! # name   address
//! alpha    10.0.0.1:7400
//! beta     10.0.0.2:7400
//! gamma    10.0.0.3:7400
//! ```

use crate::random::seed_of;
use std::fmt;

/// Maximum number of nodes of a deployment.
pub const NODES_MAX: usize = 4_096;
/// Maximum length of a name in bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// A node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Peer {
    /// Name of the node.
    pub name: String,
    /// Address of its agent: a host, as an address or by name, and a port.
    pub address: String,
}

/// All nodes, by name; the position is the number of a node.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Peers(Vec<Peer>);

/// Error in a file of peers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Invalid {
    /// Line number, counted from 1; `None` if the error concerns the whole file.
    pub line: Option<usize>,
    /// Description of the error.
    pub what: String,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl std::error::Error for Invalid {}

impl Peers {
    /// Parses the text of a file.
    ///
    /// # Errors
    /// A line is not a name and an address, a name or an address occurs twice, or there are too few
    /// nodes, or too many.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let mut found: Vec<(usize, Peer)> = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let line_number = number + 1;
            let wrong = |what: String| Invalid { line: Some(line_number), what };
            let peer = parse_line(line).map_err(wrong)?;
            for (before, other) in &found {
                if other.name == peer.name {
                    return Err(wrong(format!("{:?} is already in line {before}", peer.name)));
                }
                if other.address == peer.address {
                    let what =
                        format!("{} already has {} (line {before})", other.name, peer.address);
                    return Err(wrong(what));
                }
            }
            found.push((line_number, peer));
        }
        let count = found.len();
        if !(crate::groups::SMALLEST..=NODES_MAX).contains(&count) {
            let what = format!(
                "a file of peers has {} to {NODES_MAX} nodes, not {count}",
                crate::groups::SMALLEST
            );
            return Err(Invalid { line: None, what });
        }
        let mut peers: Vec<Peer> = found.into_iter().map(|(_, peer)| peer).collect();
        peers.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Self(peers))
    }

    /// Nodes, by their numbers.
    pub fn all(&self) -> &[Peer] {
        &self.0
    }

    /// Number of a node.
    ///
    /// # Errors
    /// There is no node of this name; the error lists the existing names.
    pub fn number(&self, name: &str) -> Result<u16, Invalid> {
        let found = self.0.iter().position(|peer| peer.name == name);
        found.and_then(|at| u16::try_from(at).ok()).ok_or_else(|| {
            let names: Vec<&str> = self.0.iter().map(|peer| peer.name.as_str()).collect();
            let what = format!("there is no node {name:?}; known nodes are {}", names.join(", "));
            Invalid { line: None, what }
        })
    }

    /// All numbers.
    pub fn numbers(&self) -> Vec<u16> {
        (0u16..).take(self.0.len()).collect()
    }

    /// Hash that is equal for all agents with the same nodes at the same addresses.
    pub fn hash(&self) -> u64 {
        let each = self.0.iter().map(|peer| format!("{} {}\n", peer.name, peer.address));
        let text: String = each.collect();
        hash(&text)
    }
}

/// Hash of a text that is the same on all machines.
pub fn hash(text: &str) -> u64 {
    let words = text.as_bytes().chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    let words: Vec<u64> = std::iter::once(text.len() as u64).chain(words).collect();
    seed_of(&words)
}

fn parse_line(line: &str) -> Result<Peer, String> {
    let mut words = line.split_whitespace();
    let (Some(name), Some(address), None) = (words.next(), words.next(), words.next()) else {
        return Err(format!("expected a name and an address such as 10.0.0.1:7400, not {line:?}"));
    };
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.len() > NAME_BYTES_MAX || !name.chars().all(allowed) {
        let what = "a name has letters, digits, \"-\", \"_\" and \".\"";
        return Err(format!("{what}, at most {NAME_BYTES_MAX} of them, not {name:?}"));
    }
    if !is_address(address) {
        let what =
            "is not an address: expected a host and a port, such as 10.0.0.1:7400 or [::1]:7400";
        return Err(format!("{address:?} {what}"));
    }
    Ok(Peer { name: name.to_owned(), address: address.to_owned() })
}

fn is_address(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let known = match bracketed {
        Some(host) => host.parse::<core::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && !host.contains(':'),
    };
    known && port.parse().is_ok_and(|port: u16| port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREE: &str =
        "# here\nbeta 127.0.0.1:7402 # second\n\nalpha\t127.0.0.1:7401\nc [::1]:7403";

    #[test]
    fn nodes_are_numbered_by_name_whatever_their_order() {
        let peers = Peers::parse(THREE).unwrap();
        assert_eq!((peers.number("alpha"), peers.number("c")), (Ok(0), Ok(2)));
        let other = "c [::1]:7403\nalpha 127.0.0.1:7401\nbeta 127.0.0.1:7402";
        assert_eq!(Peers::parse(other).unwrap(), peers);
        assert_eq!(Peers::parse(other).unwrap().hash(), peers.hash());
        let moved = Peers::parse(&other.replace("7403", "7404")).unwrap();
        assert_ne!(moved.hash(), peers.hash());
    }

    #[test]
    fn errors_name_the_line_and_the_remedy() {
        let wrong = |text: &str| Peers::parse(text).unwrap_err().to_string();
        let with = |line: &str| wrong(&format!("{THREE}\n{line}"));
        assert!(with("alpha 127.0.0.1:9").starts_with("line 6: \"alpha\" is already in line 4"));
        assert_eq!(with("d 127.0.0.1:7402"), "line 6: beta already has 127.0.0.1:7402 (line 2)");
        assert!(with("d localhost").contains("line 6: \"localhost\" is not an address"));
        for address in ["::1:7400", "[::1]", "a:0", "a:70000", ":7400", "[x]:7400"] {
            assert!(with(&format!("d {address}")).contains("is not an address"), "{address}");
        }
        assert!(with("d").contains("expected a name and an address"));
        assert!(with("d/e 127.0.0.1:1").contains("a name has letters"));
        assert!(wrong("a 127.0.0.1:1").contains("3 to 4096 nodes, not 1"));
        let peers = Peers::parse(THREE).unwrap();
        let unknown = peers.number("delta").unwrap_err().to_string();
        assert_eq!(unknown, "there is no node \"delta\"; known nodes are alpha, beta, c");
    }
}
