//! Access control lists of nodes, as in ZooKeeper.
//!
//! Schemes are `world`, `auth`, `digest` and `ip`. The hash in a `digest` is computed earlier: here
//! it is only compared.

use crate::coordination::request::{Acl, Code, Identity};
use adt::Blob;
use core::net::IpAddr;

/// Access control list of a node. An absent list allows everything to every client.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules(Option<Box<[Acl]>>);

/// Identity that every client has.
fn anyone() -> Identity {
    Identity { scheme: Blob::from("world"), id: Blob::from("anyone") }
}

impl Rules {
    /// Rules of a list that a client has sent: `auth` stands for all authenticated identities of
    /// the sender.
    ///
    /// # Errors
    /// [`Code::InvalidAcl`]: the list is empty, has an unknown scheme or an impossible identity, or
    /// uses `auth` while the sender has no authenticated identity.
    pub fn of(list: &[Acl], sender: &[Identity]) -> Result<Self, Code> {
        let mut rules: Vec<Acl> = Vec::new();
        let mut add = |acl: Acl| {
            if !rules.contains(&acl) {
                rules.push(acl);
            }
        };
        for acl in list {
            if acl.who.scheme.as_slice() == b"auth" {
                let mut proved =
                    sender.iter().filter(|who| who.scheme.as_slice() != b"ip").peekable();
                proved.peek().ok_or(Code::InvalidAcl)?;
                proved.for_each(|who| add(Acl { perms: acl.perms, who: who.clone() }));
            } else if is_valid(&acl.who) {
                add(acl.clone());
            } else {
                return Err(Code::InvalidAcl);
            }
        }
        if rules.is_empty() { Err(Code::InvalidAcl) } else { Ok(Self::restored(rules)) }
    }

    /// Rules that let every client read, and allow nothing else.
    pub fn readable() -> Self {
        Self(Some(Box::new([Acl { perms: Acl::READ, who: anyone() }])))
    }

    /// Rules of a list that was validated before.
    pub fn restored(list: Vec<Acl>) -> Self {
        match &list[..] {
            [one] if one.perms == Acl::ALL && one.who == anyone() => Self(None),
            _ => Self(Some(list.into())),
        }
    }

    /// The list, for clients that may see all of it.
    pub fn list(&self) -> Vec<Acl> {
        let open = || vec![Acl { perms: Acl::ALL, who: anyone() }];
        self.0.as_ref().map_or_else(open, |rules| rules.to_vec())
    }

    /// The list without the hashes from which passwords could be guessed.
    pub fn list_without_secrets(&self) -> Vec<Acl> {
        let mut list = self.list();
        for acl in list.iter_mut().filter(|acl| acl.who.scheme.as_slice() == b"digest") {
            let user = acl.who.id.split(|byte| *byte == b':').next().unwrap_or_default();
            acl.who.id = Blob::from([user, b":x"].concat());
        }
        list
    }

    /// Whether a client with these identities has one of these permissions.
    pub fn allow(&self, perms: i32, sender: &[Identity]) -> bool {
        let Some(rules) = &self.0 else { return true };
        let is = |rule: &Identity| *rule == anyone() || sender.iter().any(|who| matches(rule, who));
        rules.iter().any(|acl| acl.perms & perms != 0 && is(&acl.who))
    }

    /// [`Rules::allow`], as a result.
    ///
    /// # Errors
    /// [`Code::NoAuth`].
    pub fn check(&self, perms: i32, sender: &[Identity]) -> Result<(), Code> {
        if self.allow(perms, sender) { Ok(()) } else { Err(Code::NoAuth) }
    }
}

/// Whether this identity is possible.
fn is_valid(who: &Identity) -> bool {
    match who.scheme.as_slice() {
        b"world" => who.id.as_slice() == b"anyone",
        b"digest" => {
            let parts: Vec<&[u8]> = who.id.split(|byte| *byte == b':').collect();
            parts.len() == 2 && parts.iter().all(|part| !part.is_empty())
        }
        b"ip" => network(&who.id).is_some(),
        _ => false,
    }
}

/// Whether a rule for `rule` applies to `who`.
fn matches(rule: &Identity, who: &Identity) -> bool {
    if rule.scheme != who.scheme {
        return false;
    }
    if rule.scheme.as_slice() != b"ip" {
        return rule.id == who.id;
    }
    match (network(&rule.id), network(&who.id)) {
        (Some((net, bits)), Some((address, _))) => prefix(net, bits) == prefix(address, bits),
        _ => false,
    }
}

/// Parses an address and the number of its significant bits.
fn network(text: &[u8]) -> Option<(IpAddr, u32)> {
    let text = std::str::from_utf8(text).ok()?;
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits.parse::<u32>().ok()?)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.unwrap_or(most);
    (bits <= most).then_some((address, bits))
}

/// Significant bits of an address; addresses of the two families have none in common.
fn prefix(address: IpAddr, bits: u32) -> (bool, u128) {
    match address {
        IpAddr::V4(v4) => {
            (true, u128::from(u32::from(v4).checked_shr(32 - bits.min(32)).unwrap_or(0)))
        }
        IpAddr::V6(v6) => (false, u128::from(v6).checked_shr(128 - bits.min(128)).unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(scheme: &str, id: &str) -> Identity {
        Identity { scheme: Blob::from(scheme), id: Blob::from(id) }
    }

    fn acl(perms: i32, scheme: &str, id: &str) -> Acl {
        Acl { perms, who: who(scheme, id) }
    }

    #[test]
    fn a_list_must_say_something_that_can_be() {
        assert_eq!(Rules::of(&[], &[]), Err(Code::InvalidAcl));
        for (scheme, id) in [
            ("world", "you"),
            ("digest", "ann"),
            ("digest", "a:b:c"),
            ("ip", "10.0.0.300"),
            ("x", ""),
        ] {
            assert_eq!(
                Rules::of(&[acl(31, scheme, id)], &[]),
                Err(Code::InvalidAcl),
                "{scheme}:{id}"
            );
        }
        assert_eq!(Rules::of(&[acl(31, "auth", "")], &[who("ip", "::1")]), Err(Code::InvalidAcl));
        let open = Rules::of(&[acl(Acl::ALL, "world", "anyone")], &[]).unwrap();
        assert_eq!(open, Rules::default());
        assert_eq!(open.list(), [acl(Acl::ALL, "world", "anyone")]);
    }

    #[test]
    fn auth_stands_for_all_that_one_has_proved_to_be() {
        let ann = [who("ip", "10.0.0.1"), who("digest", "ann:secret")];
        let rules = Rules::of(&[acl(Acl::ALL, "auth", "")], &ann).unwrap();
        assert_eq!(rules.list(), [acl(Acl::ALL, "digest", "ann:secret")]);
        assert_eq!(rules.list_without_secrets(), [acl(Acl::ALL, "digest", "ann:x")]);
        assert_eq!(rules.check(Acl::WRITE, &ann), Ok(()));
        assert_eq!(rules.check(Acl::WRITE, &[who("digest", "ben:secret")]), Err(Code::NoAuth));
    }

    #[test]
    fn addresses_match_by_the_bits_that_count() {
        let rules = Rules::of(&[acl(Acl::READ, "ip", "10.1.0.0/16")], &[]).unwrap();
        assert!(rules.allow(Acl::READ, &[who("ip", "10.1.200.7")]));
        assert!(!rules.allow(Acl::WRITE, &[who("ip", "10.1.200.7")]));
        assert!(!rules.allow(Acl::READ, &[who("ip", "10.2.0.1")]));
        assert!(!rules.allow(Acl::READ, &[who("ip", "::1")]));
        let all = Rules::of(&[acl(Acl::READ, "ip", "0.0.0.0/0")], &[]).unwrap();
        assert!(all.allow(Acl::READ, &[who("ip", "192.168.0.1")]));
        assert!(!all.allow(Acl::READ, &[who("ip", "::1")]));
        assert_eq!(Rules::of(&[acl(1, "ip", "10.0.0.0/33")], &[]), Err(Code::InvalidAcl));
    }
}
