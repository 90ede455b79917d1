//! Access control: rights of users to call commands on keys and channels.
//!
//! Rules have the syntax of Redis' `ACL SETUSER`. A new user has no rights; rules are applied from left
//! to right. Decisions come from the command table that also parses and executes, and a test checks for
//! every data command that its operations touch no key that was not checked.

//!
//! Users of the configuration file, the user `default` among them, stay as they are there. All others are in
//! the store (`stored`), and can be changed at run time.

mod access;
mod change;
pub mod denials;
mod follow;
mod login;
mod noted;
mod passwords;
mod permissions;
mod replies;
mod stored;

pub use access::{KeyAccess, key_access, looks_up};
pub use change::UserChange;
use denials::Denied;
pub use passwords::{DIGESTS, digest_of, fits_digest};
pub use permissions::{Permission, Permissions, permissions};
pub use replies::{cat, tell, who_am_i};

use super::UserConfig;
use crate::gateway::clients::session_commands::position;
use crate::limits::PASSWORDS_MAX;
use adt::command::glob;
use adt::known::{self, Known};
use adt::{Args, Blob, CommandSpec, ErrorReply};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Name of the user that a connection has before it authenticates.
pub const DEFAULT_USER: &str = "default";
/// Most users of a server.
pub const USERS_MAX: usize = 10_000;
/// Most key and channel patterns of one user.
pub const PATTERNS_MAX: usize = 1_000;
/// Longest rule, in bytes.
pub const RULE_BYTES_MAX: usize = 1_024;

/// The error for a login that fails.
fn wrong_password() -> ErrorReply {
    ErrorReply::new("WRONGPASS", "invalid username-password pair or user is disabled.")
}

/// Checks the name of a user.
fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.bytes().any(|b| b <= b' ' || b == 0x7f) {
        return Err(format!(
            "the user name {name:?} must have at least one character and no spaces or control characters"
        ));
    }
    Ok(())
}

/// A rule as errors show it: a word that was meant as a password must not be printed.
fn shown(rule: &str) -> String {
    let secret = rule.starts_with(['>', '<', '#', '!']);
    if secret { rule[..1].to_owned() } else { rule.escape_debug().to_string() }
}

/// Users of a server: those of the configuration file, and what a gateway knows of those in the store.
#[derive(Clone, Debug, Default)]
pub struct Users {
    /// Users of the configuration file.
    users: Arc<BTreeMap<String, Arc<User>>>,
    /// Latest version of the users in the store that the gateway has been told.
    newest: u64,
    /// Whether the gateway looks at the users of its sessions from time to time.
    looks: bool,
}

/// Next step of an authentication.
#[derive(Clone, Debug)]
pub enum Login {
    /// Any password fits.
    Accept(Arc<User>),
    /// The password must be checked against the verifier, which is empty if none can fit.
    Verify {
        /// Verifier of the user's passwords.
        verifier: String,
    },
}

impl Users {
    /// Users of a configuration, or the reason why it is wrong.
    pub fn from_config(configs: &[UserConfig]) -> Result<Self, String> {
        if configs.len() > USERS_MAX {
            return Err(format!("there can be at most {USERS_MAX} users"));
        }
        let mut users = BTreeMap::new();
        for config in configs {
            let name = &config.name;
            check_name(name)?;
            let mut user = User::new(name);
            user.verifier.clone_from(&config.verifier);
            for rule in &config.rules {
                user.apply(rule).map_err(|why| {
                    format!("user '{name}': error in the rule '{}': {why}", shown(rule))
                })?;
            }
            if users.insert(name.clone(), Arc::new(user)).is_some() {
                return Err(format!("the user '{name}' is there twice"));
            }
        }
        Ok(Self { users: Arc::new(users), ..Self::default() })
    }

    /// Only user of a server without authentication, with all rights and without a password.
    pub fn open() -> Self {
        let mut user = User::new(DEFAULT_USER);
        for rule in ["on", "nopass", "allkeys", "allchannels", "allcommands"] {
            user.apply(rule).expect("a known rule");
        }
        let users = Arc::new(BTreeMap::from([(DEFAULT_USER.to_owned(), Arc::new(user))]));
        Self { users, ..Self::default() }
    }

    /// User called `name`.
    pub fn user(&self, name: &[u8]) -> Option<&Arc<User>> {
        std::str::from_utf8(name).ok().and_then(|name| self.users.get(name))
    }

    /// Users in the order of their names.
    pub fn users(&self) -> impl Iterator<Item = &User> {
        self.users.values().map(|user| &**user)
    }

    /// User of a new connection without authentication: the default user, if it is switched on and
    /// needs no password.
    pub fn unauthenticated(&self) -> Option<&Arc<User>> {
        self.users.get(DEFAULT_USER).filter(|user| user.enabled && user.nopass)
    }

    /// Begins the authentication as `name`, if no user of that name can be in the store. A user that does not
    /// exist, is switched off or has no password looks like a wrong password, and takes as long.
    pub fn login(&self, name: &[u8]) -> Option<Login> {
        match std::str::from_utf8(name) {
            Ok(name) if self.users.contains_key(name) || check_name(name).is_err() => {
                Some(Login::of(self.users.get(name)))
            }
            Ok(_) => None,
            Err(_) => Some(Login::of(None)),
        }
    }
}

impl Login {
    /// Next step of an authentication as a user, or as one that does not exist.
    fn of(user: Option<&Arc<User>>) -> Self {
        match user.filter(|user| user.enabled) {
            Some(user) if user.nopass => Self::Accept(user.clone()),
            Some(user) => Self::Verify { verifier: user.verifier() },
            None => Self::Verify { verifier: String::new() },
        }
    }
}

/// Pattern of keys, and the permitted accesses.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KeyRule {
    pattern: Blob,
    read: bool,
    write: bool,
}

/// User with its rights.
#[derive(Clone)]
pub struct User {
    name: String,
    enabled: bool,
    nopass: bool,
    /// Verifier of the password, of a user of the configuration file.
    verifier: Option<String>,
    /// Digests of the passwords, of a user in the store.
    digests: BTreeSet<String>,
    /// Version of the users in the store that these rights are of, or none for a user of the configuration
    /// file.
    version: Option<u64>,
    /// One bit per permission.
    allowed: Vec<u64>,
    /// Command rules that led to `allowed`, for display.
    commands: Vec<String>,
    keys: Vec<KeyRule>,
    all_keys: bool,
    channels: Vec<Blob>,
    all_channels: bool,
    everything: bool,
}

impl std::fmt::Debug for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "User({})", self.name)
    }
}

impl User {
    /// User that is switched off and has no rights.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            enabled: false,
            nopass: false,
            verifier: None,
            digests: BTreeSet::new(),
            version: None,
            allowed: vec![0; permissions().all.len().div_ceil(64)],
            commands: vec!["-@all".to_owned()],
            keys: Vec::new(),
            all_keys: false,
            channels: Vec::new(),
            all_channels: false,
            everything: false,
        }
    }

    /// Name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the user can authenticate.
    pub fn enabled(&self) -> bool {
        self.enabled
    }

    /// Whether nothing is forbidden: then [`User::check`] need not be asked.
    #[inline]
    pub fn everything(&self) -> bool {
        self.everything
    }

    /// Verifier of the passwords, empty if there is none.
    fn verifier(&self) -> String {
        match &self.verifier {
            Some(verifier) => verifier.clone(),
            None if self.digests.is_empty() => String::new(),
            None => {
                let digests: Vec<&str> = self.digests.iter().map(String::as_str).collect();
                format!("{DIGESTS}{}", digests.join(","))
            }
        }
    }

    /// Whether the user may do all that another may.
    fn includes(&self, other: &Self) -> bool {
        let mut allowed = self.allowed.iter().zip(&other.allowed);
        let keys = || !other.all_keys && other.keys.iter().all(|rule| self.keys.contains(rule));
        let channels =
            || !other.all_channels && other.channels.iter().all(|c| self.channels.contains(c));
        allowed.all(|(own, others)| others & !own == 0)
            && (self.all_keys || keys())
            && (self.all_channels || channels())
    }

    /// Applies a rule, or changes the passwords of a user in the store.
    fn change(&mut self, rule: &str) -> Result<(), String> {
        match rule.as_bytes().first() {
            Some(b'#') => {
                let digest = passwords::digest_in(&rule[1..])?;
                if self.digests.len() >= PASSWORDS_MAX && !self.digests.contains(&digest) {
                    return Err(format!("a user has at most {PASSWORDS_MAX} passwords"));
                }
                self.digests.insert(digest);
                self.nopass = false;
            }
            Some(b'!') => {
                if !self.digests.remove(&passwords::digest_in(&rule[1..])?) {
                    return Err(
                        "the user does not have the password that is to be removed".to_owned()
                    );
                }
            }
            _ => self.apply(rule)?,
        }
        Ok(())
    }

    /// Applies a rule. A wrong rule changes nothing; the error is the reason.
    pub fn apply(&mut self, rule: &str) -> Result<(), String> {
        if rule.len() > RULE_BYTES_MAX {
            return Err(format!("a rule has at most {RULE_BYTES_MAX} bytes"));
        }
        match rule.to_ascii_lowercase().as_str() {
            "on" => self.enabled = true,
            "off" => self.enabled = false,
            "nopass" => {
                self.nopass = true;
                self.verifier = None;
                self.digests.clear();
            }
            "resetpass" => {
                self.nopass = false;
                self.verifier = None;
                self.digests.clear();
            }
            "reset" => *self = Self { version: self.version, ..Self::new(&self.name) },
            "sanitize-payload" | "skip-sanitize-payload" => {}
            "allkeys" => self.apply_key("~*")?,
            "resetkeys" => {
                self.keys.clear();
                self.all_keys = false;
            }
            "allchannels" => self.apply_channel("*")?,
            "resetchannels" => {
                self.channels.clear();
                self.all_channels = false;
            }
            "allcommands" => self.apply_command("+@all")?,
            "nocommands" => self.apply_command("-@all")?,
            lower => match rule.as_bytes().first() {
                Some(b'+' | b'-') => self.apply_command(lower)?,
                Some(b'~' | b'%') => self.apply_key(rule)?,
                Some(b'&') => self.apply_channel(&rule[1..])?,
                Some(b'>' | b'<' | b'#' | b'!') => {
                    return Err("passwords are not rules: the configuration holds a verifier for \
                                each user"
                        .to_owned());
                }
                Some(b'(') => return Err("selectors are not known here".to_owned()),
                _ => {
                    return Err("syntax error; known are on, off, nopass, resetpass, reset, \
                                +command, -command, +@category, -@category, ~keys, %R~keys, \
                                %W~keys, resetkeys, &channels, resetchannels, and with \
                                ACL SETUSER >password, <password, #digest, !digest"
                        .to_owned());
                }
            },
        }
        self.everything = self.all_keys
            && self.all_channels
            && (0..permissions().all.len()).all(|permission| self.may_call(permission));
        Ok(())
    }

    fn apply_key(&mut self, rule: &str) -> Result<(), String> {
        let (flags, pattern) =
            rule.split_once('~').ok_or("a key rule is ~pattern, %R~pattern or %W~pattern")?;
        let flags = flags.to_ascii_uppercase();
        let (read, write) = match flags.as_str() {
            "" | "%RW" | "%WR" => (true, true),
            "%R" => (true, false),
            "%W" => (false, true),
            _ => return Err("a key rule is ~pattern, %R~pattern or %W~pattern".to_owned()),
        };
        if pattern == "*" && read && write {
            self.keys.clear();
            self.all_keys = true;
            return Ok(());
        }
        if self.all_keys {
            return Err("all keys are allowed already; 'resetkeys' starts anew".to_owned());
        }
        let rule = KeyRule { pattern: pattern.into(), read, write };
        if !self.keys.contains(&rule) {
            if self.keys.len() >= PATTERNS_MAX {
                return Err(format!("a user has at most {PATTERNS_MAX} patterns"));
            }
            self.keys.push(rule);
        }
        Ok(())
    }

    fn apply_channel(&mut self, pattern: &str) -> Result<(), String> {
        if pattern == "*" {
            self.channels.clear();
            self.all_channels = true;
        } else if self.all_channels {
            return Err("all channels are allowed already; 'resetchannels' starts anew".to_owned());
        } else if !self.channels.iter().any(|c| c.as_slice() == pattern.as_bytes()) {
            if self.channels.len() >= PATTERNS_MAX {
                return Err(format!("a user has at most {PATTERNS_MAX} patterns"));
            }
            self.channels.push(pattern.into());
        }
        Ok(())
    }

    fn apply_command(&mut self, rule: &str) -> Result<(), String> {
        let permissions = permissions();
        let (sign, what) = rule.split_at(1);
        let chosen: Vec<usize> = if what == "@all" {
            self.commands.clear();
            (0..permissions.all.len()).collect()
        } else if let Some(category) = what.strip_prefix('@') {
            let number = permissions.category(category).ok_or_else(|| {
                format!("unknown category; known are all, {}", permissions.categories.join(", "))
            })?;
            (0..permissions.all.len()).filter(|&i| permissions.all[i].is_in(number)).collect()
        } else {
            permissions.named(what).ok_or_else(|| unknown(what))?
        };
        for permission in chosen {
            let bit = 1 << (permission % 64);
            if sign == "+" {
                self.allowed[permission / 64] |= bit;
            } else {
                self.allowed[permission / 64] &= !bit;
            }
        }
        self.commands.retain(|r| &r[1..] != what);
        self.commands.push(rule.to_owned());
        Ok(())
    }

    fn may_call(&self, permission: usize) -> bool {
        self.allowed[permission / 64] & (1 << (permission % 64)) != 0
    }

    /// Whether the user may make this call; the error is the client's reply. The number of words
    /// must have been checked before.
    pub fn check(&self, spec: &CommandSpec, args: &Args<'_>) -> Result<(), ErrorReply> {
        self.judge(spec, args)?.map_or(Ok(()), |refusal| Err(self.error(&refusal)))
    }

    /// Reason why the user may not make this call, if there is one. Fails if the keys cannot be found in
    /// the words, whose number must have been checked before.
    pub fn judge(&self, spec: &CommandSpec, args: &Args<'_>) -> Result<Option<Denied>, ErrorReply> {
        if self.everything {
            return Ok(None);
        }
        let denied = |name: String| Ok(Some(Denied::Command(name)));
        let Some(position) = position(spec.name.as_bytes()) else {
            return denied(spec.name.to_owned());
        };
        let permission = permissions().called(position, args);
        if !self.may_call(permission) {
            return denied(permissions().all[permission].full_name());
        }
        let key = self.forbidden_key(spec, args)?.map(|key| Denied::Key(key.into()));
        let lookup = || Some(Denied::Lookup(self.forbidden_lookup(spec, args)?));
        let channel = || Some(Denied::Channel(self.forbidden_channel(spec, args)?.into()));
        Ok(key.or_else(lookup).or_else(channel))
    }

    /// Error for a client to whom something is refused.
    pub fn error(&self, refusal: &Denied) -> ErrorReply {
        let text = match refusal {
            Denied::Command(name) => {
                let user = &self.name;
                format!("User {user} has no permissions to run the '{name}' command")
            }
            Denied::Key(_) => "No permissions to access a key".to_owned(),
            Denied::Lookup(option) => {
                format!("{option} option of SORT denied due to insufficient ACL permissions")
            }
            Denied::Channel(_) => "No permissions to access a channel".to_owned(),
            Denied::Login(_) => return wrong_password(),
        };
        ErrorReply::new("NOPERM", text)
    }

    /// Option by which a call reads keys that its words do not name, if the user may not read all keys.
    fn forbidden_lookup(&self, spec: &CommandSpec, args: &Args<'_>) -> Option<&'static str> {
        let reads_all = |rule: &KeyRule| rule.read && *rule.pattern == *b"*";
        looks_up(spec, args).filter(|_| !self.all_keys && !self.keys.iter().any(reads_all))
    }

    /// First key of a call that the user may not access.
    fn forbidden_key<'a>(
        &self,
        spec: &CommandSpec,
        args: &Args<'a>,
    ) -> Result<Option<&'a [u8]>, ErrorReply> {
        if self.all_keys {
            return Ok(None);
        }
        for (nth, at) in spec.keys.positions(args)?.into_iter().enumerate() {
            let (needs, key) = (key_access(spec, args, nth), args.get(at).unwrap_or_default());
            if !self.may_access(key, needs) {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }

    /// Whether the user may do `needs` with `key`. Reading and writing may come from two rules.
    pub fn may_access(&self, key: &[u8], needs: KeyAccess) -> bool {
        let by = |allows: fn(&KeyRule) -> bool| {
            self.keys.iter().any(|rule| allows(rule) && glob::matches(&rule.pattern, key))
        };
        self.all_keys || ((!needs.read || by(|r| r.read)) && (!needs.write || by(|r| r.write)))
    }

    /// First channel or pattern of a call that the user may not use.
    fn forbidden_channel<'a>(&self, spec: &CommandSpec, args: &Args<'a>) -> Option<&'a [u8]> {
        match spec.name {
            "publish" | "spublish" => args.get(1).filter(|channel| !self.may_use_channel(channel)),
            "subscribe" | "ssubscribe" => {
                args.iter_from(1).find(|channel| !self.may_use_channel(channel))
            }
            "psubscribe" => args.iter_from(1).find(|pattern| !self.may_use_pattern(pattern)),
            _ => None,
        }
    }

    /// Whether the user may publish and subscribe to `channel`.
    pub fn may_use_channel(&self, channel: &[u8]) -> bool {
        self.all_channels || self.channels.iter().any(|rule| glob::matches(rule, channel))
    }

    /// Whether the user may go on to listen to a channel or a pattern.
    fn may_listen(&self, is_pattern: bool, name: &[u8]) -> bool {
        if is_pattern { self.may_use_pattern(name) } else { self.may_use_channel(name) }
    }

    /// Whether the user may subscribe to `pattern`: it must be one of the user's own, since
    /// whether one pattern lies within another is not decided here (as in Redis).
    fn may_use_pattern(&self, pattern: &[u8]) -> bool {
        self.all_channels || self.channels.iter().any(|rule| rule.as_slice() == pattern)
    }
}

/// Message for a rule about a command that is not there.
fn unknown(what: &str) -> String {
    let known = known::lookup(&what.to_ascii_lowercase());
    let absent = known.filter(|known| !known.standing.is_built()).map(Known::absence);
    absent.unwrap_or_else(|| "unknown command or subcommand".to_owned())
}

#[cfg(test)]
mod tests;
