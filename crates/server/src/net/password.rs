//! Storage of passwords, and a thread that checks them.
//!
//! A password of the configuration file is stored as an Argon2id string (RFC 9106, with the parameters that
//! OWASP recommends, in the format of the Password Hashing Competition). Checking it costs some 20 ms and 19
//! MiB: too much for an event loop. A wrong password is answered half a second later, so that guessing is
//! slow; other clients are not delayed by that. A correct one is remembered under a key that only
//! this process has, so that a client with many connections does not pay for each. Passwords of users in the
//! store have SHA-256 digests instead ([`engine::gateway::acl::fits_digest`]).

use crate::data::datadir::random;
use argon2::password_hash::phc::PasswordHash;
use argon2::{Argon2, PasswordHasher, PasswordVerifier};
use engine::gateway::acl::{DIGESTS, fits_digest};
use ring::hmac;
use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Delay before a wrong password is answered.
pub const WRONG_PASSWORD_DELAY: Duration = Duration::from_millis(500);
/// Limit on the memory for checking a password, in KiB.
const MEMORY_KIB_MAX: u32 = 256 << 10;
/// Limit on remembered passwords.
const REMEMBERED_MAX: usize = 1_000;

/// Argon2id string for a password.
///
/// # Panics
/// If the system cannot provide random bytes.
pub fn verifier(password: &str) -> String {
    Argon2::default()
        .hash_password(password.as_bytes())
        .expect("the default parameters are valid")
        .to_string()
}

/// Random hexadecimal digits that contain so many random bits.
///
/// # Panics
/// If the system cannot provide random bytes.
pub fn random_digits(bits: usize) -> String {
    let count = bits.div_ceil(4);
    let mut digits = String::with_capacity(count);
    while digits.len() < count {
        random::<32>().iter().for_each(|byte| digits.push_str(&format!("{byte:02x}")));
    }
    digits.truncate(count);
    digits
}

/// Checks that a string is a valid Argon2id string with acceptable costs.
///
/// # Errors
/// Describes what is wrong with it.
pub fn check_verifier(verifier: &str) -> Result<(), String> {
    let hash = PasswordHash::new(verifier)
        .map_err(|_| "is no string such as $argon2id$v=19$m=19456,t=2,p=1$salt$hash".to_owned())?;
    if hash.algorithm.as_str() != "argon2id" || hash.hash.is_none() {
        return Err("is not an argon2id hash".to_owned());
    }
    let params = argon2::Params::try_from(&hash).map_err(|error| format!("is invalid: {error}"))?;
    if params.m_cost() > MEMORY_KIB_MAX || params.t_cost() > 64 {
        return Err(format!("asks for too much: at most m={MEMORY_KIB_MAX},t=64"));
    }
    Ok(())
}

/// Password to be checked.
pub struct Attempt<T> {
    /// Identifies the attempt; returned with the result.
    pub origin: T,
    /// Password that the client sent.
    pub password: Vec<u8>,
    /// Argon2id string of the right password, or [`DIGESTS`] and digests; empty if no password is right.
    pub verifier: String,
}

/// Handle of the thread.
pub struct PasswordThread<T> {
    sender: Option<Sender<Attempt<T>>>,
    thread: Option<JoinHandle<()>>,
}

impl<T: Send + 'static> PasswordThread<T> {
    /// Starts the thread; `answer` receives each attempt's origin and whether the password is
    /// correct.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub fn spawn(answer: impl Fn(T, bool) + Send + 'static) -> std::io::Result<Self> {
        // A session has at most one attempt under way, so the queue is bounded by the connections.
        let (sender, receiver) = channel();
        let thread = std::thread::Builder::new()
            .name("password".to_owned())
            .spawn(move || Checker::new().run(&receiver, &answer))?;
        Ok(Self { sender: Some(sender), thread: Some(thread) })
    }

    /// Sender of attempts.
    ///
    /// # Panics
    /// Never: the sender exists until the thread is dropped.
    pub fn sender(&self) -> Sender<Attempt<T>> {
        self.sender.clone().expect("there until dropped")
    }
}

impl<T> Drop for PasswordThread<T> {
    fn drop(&mut self) {
        self.sender = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the password thread has panicked");
        }
    }
}

/// Checker of passwords, with the correct ones that it remembers.
struct Checker {
    key: hmac::Key,
    /// Tags of correct passwords, by their Argon2id strings.
    known: BTreeMap<String, hmac::Tag>,
    /// Checked when there is no string to check against, so that the response time reveals nothing.
    decoy: String,
}

impl Checker {
    fn new() -> Self {
        Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, &random::<32>()),
            known: BTreeMap::new(),
            decoy: verifier("nobody has this password"),
        }
    }

    fn run<T>(mut self, receiver: &Receiver<Attempt<T>>, answer: &dyn Fn(T, bool)) {
        let mut refused: VecDeque<(Instant, T)> = VecDeque::new();
        loop {
            let now = Instant::now();
            while refused.front().is_some_and(|(due, _)| *due <= now) {
                if let Some((_, origin)) = refused.pop_front() {
                    answer(origin, false);
                }
            }
            let next = match refused.front() {
                Some((due, _)) => receiver.recv_timeout(due.saturating_duration_since(now)),
                None => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match next {
                Ok(attempt) => {
                    // However long the check takes: the time does not tell of whom there is a verifier.
                    let due = Instant::now() + WRONG_PASSWORD_DELAY;
                    if self.fits(&attempt.password, &attempt.verifier) {
                        answer(attempt.origin, true);
                    } else {
                        refused.push_back((due, attempt.origin));
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn fits(&mut self, password: &[u8], verifier: &str) -> bool {
        if let Some(digests) = verifier.strip_prefix(DIGESTS) {
            return fits_digest(password, digests);
        }
        let known = self.known.get(verifier);
        if known.is_some_and(|tag| hmac::verify(&self.key, password, tag.as_ref()).is_ok()) {
            return true;
        }
        let against = if verifier.is_empty() { &self.decoy } else { verifier };
        let fits = PasswordHash::new(against)
            .is_ok_and(|hash| Argon2::default().verify_password(password, &hash).is_ok())
            && !verifier.is_empty();
        if fits {
            if self.known.len() >= REMEMBERED_MAX {
                self.known.clear();
            }
            self.known.insert(verifier.to_owned(), hmac::sign(&self.key, password));
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_fits_its_verifier_only() {
        let verifier = verifier("correct horse");
        assert!(check_verifier(&verifier).is_ok());
        assert!(!verifier.contains("correct"));
        let mut checker = Checker::new();
        for _ in 0..2 {
            assert!(checker.fits(b"correct horse", &verifier));
            assert!(!checker.fits(b"wrong horse", &verifier));
            assert!(!checker.fits(b"", &verifier));
        }
        assert!(!checker.fits(b"nobody has this password", ""));
    }

    #[test]
    fn a_password_fits_one_of_several_digests() {
        let digest = engine::gateway::acl::digest_of;
        let verifier = format!("{DIGESTS}{},{}", digest(b"old"), digest(b"new"));
        let mut checker = Checker::new();
        assert!(checker.fits(b"old", &verifier) && checker.fits(b"new", &verifier));
        assert!(!checker.fits(b"", &verifier) && !checker.fits(verifier.as_bytes(), &verifier));
        assert!(!checker.fits(b"", DIGESTS));
    }

    #[test]
    fn verifiers_that_cost_too_much_are_refused() {
        for bad in [
            "",
            "secret",
            "$argon2i$v=19$m=19456,t=2,p=1$c29tZXNhbHQ$c29tZWhhc2hzb21laGFzaA",
            "$argon2id$v=19$m=4000000,t=2,p=1$c29tZXNhbHQ$c29tZWhhc2hzb21laGFzaA",
        ] {
            assert!(check_verifier(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_wrong_password_waits_and_holds_up_no_other() {
        let (sender, answers) = channel();
        let thread = PasswordThread::spawn(move |origin: u32, ok| {
            sender.send((origin, ok, Instant::now())).unwrap();
        })
        .unwrap();
        let right = verifier("right");
        let start = Instant::now();
        for (origin, password) in [(1, "wrong"), (2, "right"), (3, "right")] {
            let attempt = Attempt { origin, password: password.into(), verifier: right.clone() };
            thread.sender().send(attempt).unwrap();
        }
        let got: Vec<_> = (0..3).map(|_| answers.recv().unwrap()).collect();
        assert_eq!(
            got.iter().map(|a| (a.0, a.1)).collect::<Vec<_>>(),
            [(2, true), (3, true), (1, false)]
        );
        assert!(got[2].2 - start >= WRONG_PASSWORD_DELAY);
    }
}
