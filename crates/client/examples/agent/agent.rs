//! State of the agent, and what it does for each request.

use crate::body;
use crate::plain::{Fault, count, described, list, plain, text, time, word};
use client::{
    Cache, CacheOptions, Client, ClientReply, Command, Error, Lock, LockOptions, Options, Retained,
    RetainedOptions, Share, Stay, Tls, Tx, Type,
};
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use tokio::sync::Notify;

/// Requests and options that the client offers.
const OFFERS: &str = "hello open close command run resume cancel batch dispatch lock unlock held \
    fenced stop_renewing section campaign proclaim resign leader observe barrier retained enter \
    give_back define migrate operate cache cached cache_stats close_cache once guards addresses \
    near next tls certificate password_file closed";

/// Lease of a lock, if the request does not say it, in milliseconds.
const LEASE_MS: u64 = 30_000;

/// A request that is under way.
#[derive(Default)]
pub struct Under {
    resume: Notify,
    cancel: Notify,
    /// Whether the function of a transaction has returned, so that the commit may be on its way.
    pub is_committing: Cell<bool>,
}

impl Under {
    /// Waits until the caller gives up.
    pub async fn given_up(&self) {
        self.cancel.notified().await;
    }

    /// The outcome of a request that was given up.
    pub fn outcome(&self, request: &Value) -> Fault {
        // A section is one request: it may be on its way as well.
        match self.is_committing.get() || request["do"] == "section" {
            true => Fault::Unknown,
            false => Fault::Cancelled,
        }
    }

    /// Reports a pause, and waits for its end.
    pub async fn pause(&self, id: &Value, at: &Value) {
        crate::write(&json!({"id": id, "event": "paused", "at": at}));
        self.resume.notified().await;
    }
}

/// A lock, an election that was won, or a stay in a retained lock.
enum Held {
    Lock(Lock),
    Stay(Stay),
}

/// Clients, locks and elections, retained locks, and caches, by name.
#[derive(Default)]
pub struct Agent {
    clients: RefCell<HashMap<String, Client>>,
    locks: RefCell<HashMap<String, Rc<Held>>>,
    kept: RefCell<HashMap<String, Retained>>,
    caches: RefCell<HashMap<String, Cache>>,
    under_way: RefCell<HashMap<String, Rc<Under>>>,
}

fn unknown(name: &str) -> Fault {
    Fault::Agent(format!("there is nothing under the name {name}"))
}

impl Agent {
    /// Notes that a request begins.
    pub fn begin(&self, id: &Value) -> Rc<Under> {
        let under = Rc::<Under>::default();
        self.under_way.borrow_mut().insert(word(id), Rc::clone(&under));
        under
    }

    /// Notes that a request was answered.
    pub fn forget(&self, id: &Value) {
        self.under_way.borrow_mut().remove(&word(id));
    }

    /// Carries a request out.
    pub async fn carry_out(&self, request: &Value, under: &Under) -> Result<Value, Fault> {
        match text(request, "do")? {
            "hello" => {
                let offers: Vec<_> = OFFERS.split_whitespace().collect();
                Ok(json!({"client": "rust", "offers": offers}))
            }
            "open" => self.open(request),
            "close" => {
                self.client(request)?.close().await;
                Ok(Value::Null)
            }
            "command" => Ok(plain(self.client(request)?.send(words(request)?).await?)),
            "run" => body::run(self, &self.client(request)?, request, under).await,
            "resume" | "cancel" => self.prompt(request),
            "batch" => self.batch(request).await,
            "dispatch" => self.dispatch(request).await,
            "define" => Ok(json!(definition(request)?.define(&self.client(request)?).await?)),
            "migrate" => Ok(json!(definition(request)?.migrate(&self.client(request)?).await?)),
            "operate" => self.operate(request).await,
            "cache" => self.cache(request),
            "cached" => Ok(plain(self.cache_of(request)?.read(words(request)?).await?)),
            "cache_stats" => {
                let stats = self.cache_of(request)?.stats();
                Ok(json!({"hits": stats.hits, "misses": stats.misses, "dropped": stats.dropped}))
            }
            "close_cache" => {
                self.cache_of(request)?.close();
                Ok(Value::Null)
            }
            _ => self.coordinate(request).await,
        }
    }

    /// Carries out a request about locks, elections and barriers.
    async fn coordinate(&self, request: &Value) -> Result<Value, Fault> {
        match text(request, "do")? {
            "lock" => {
                let options = lock_options(request);
                let lock = self.client(request)?.lock(text(request, "name")?, options).await?;
                self.hold(request, lock.token(), Held::Lock(lock))
            }
            "campaign" => {
                let (name, value) = (text(request, "name")?, text(request, "value")?);
                let options = lock_options(request);
                let lock = self.client(request)?.campaign(name, value, options).await?;
                self.hold(request, lock.token(), Held::Lock(lock))
            }
            "unlock" => self.release(text(request, "lock")?).await,
            "resign" => self.release(text(request, "election")?).await,
            "held" => {
                let left = match &*self.held(text(request, "lock")?)? {
                    Held::Lock(lock) => lock.left(),
                    Held::Stay(stay) => stay.left(),
                };
                Ok(json!(!left.is_zero()))
            }
            "fenced" => Ok(plain(match &*self.held(text(request, "lock")?)? {
                Held::Lock(lock) => lock.fenced(words(request)?).await?,
                Held::Stay(stay) => stay.fenced(words(request)?).await?,
            })),
            "stop_renewing" => {
                let name = text(request, "lock")?;
                match &*self.held(name)? {
                    Held::Lock(lock) => lock.stop_renewing(),
                    Held::Stay(_) => return Err(unknown(name)),
                }
                Ok(Value::Null)
            }
            "section" => {
                let (name, options) = (text(request, "name")?, lock_options(request));
                let section = self.client(request)?;
                let section = section.section_with_token(name, options, words(request)?);
                let (token, reply) = section.await?;
                Ok(json!({"token": token, "value": plain(reply)}))
            }
            "proclaim" => self.proclaim(request).await,
            "leader" => {
                let leader = self.client(request)?.leader(text(request, "name")?).await?;
                Ok(leader.map_or(Value::Null, |leader| told(&leader.value)))
            }
            "observe" => self.observe(request).await,
            "barrier" => {
                let parties = count(request, "parties").unwrap_or(0);
                let (name, timeout) = (text(request, "name")?, time(request, "timeout"));
                Ok(json!(self.client(request)?.barrier(name, parties, timeout).await?))
            }
            "retained" => self.retained(request),
            "enter" => self.enter(request).await,
            "give_back" => {
                let name = text(request, "retained")?;
                let kept = self.kept.borrow_mut().remove(name).ok_or_else(|| unknown(name))?;
                kept.give_back().await?;
                Ok(Value::Null)
            }
            other => Err(Fault::Agent(format!("there is no request {other}"))),
        }
    }

    fn client(&self, request: &Value) -> Result<Client, Fault> {
        let name = text(request, "client")?;
        self.clients.borrow().get(name).cloned().ok_or_else(|| unknown(name))
    }

    fn held(&self, name: &str) -> Result<Rc<Held>, Fault> {
        self.locks.borrow().get(name).cloned().ok_or_else(|| unknown(name))
    }

    fn open(&self, request: &Value) -> Result<Value, Fault> {
        let addresses: Vec<_> = list(request, "addresses")?.iter().map(word).collect();
        let user = request["username"].as_str().map(|user| format!("{user}@")).unwrap_or_default();
        let path = |name: &str| request[name].as_str().map(Into::into);
        let tls = Tls {
            ca: path("tls"),
            cert: path("certificate"),
            key: path("certificate_key"),
            server_name: None,
        };
        let scheme = if tls.ca.is_some() { "rediss" } else { "redis" };
        let options = Options { password_file: path("password_file"), tls, ..Options::default() };
        let client = Client::new(&format!("{scheme}://{user}{}", addresses.join(",")), options)?;
        self.clients.borrow_mut().insert(text(request, "client")?.to_owned(), client);
        Ok(Value::Null)
    }

    fn prompt(&self, request: &Value) -> Result<Value, Fault> {
        let name = word(&request["request"]);
        let under = self.under_way.borrow().get(&name).cloned().ok_or_else(|| unknown(&name))?;
        let what = if request["do"] == "cancel" { &under.cancel } else { &under.resume };
        what.notify_one();
        Ok(Value::Null)
    }

    async fn batch(&self, request: &Value) -> Result<Value, Fault> {
        let client = self.client(request)?;
        let mut batch = client.batch();
        for guard in request["guards"].as_array().into_iter().flatten() {
            let key = word(&guard[0]);
            batch = match guard[1].as_str() {
                Some(value) => batch.if_equal(key, value),
                None => batch.if_absent(key),
            };
        }
        for words in list(request, "commands")? {
            batch = batch.then(command(words)?);
        }
        match batch.commit().await {
            Ok(replies) => {
                let replies: Result<Vec<_>, _> = replies.into_iter().collect();
                let refused = |error: Error| Error::WriteRefused(error.to_string());
                Ok(replies.map_err(refused)?.into_iter().map(plain).collect())
            }
            Err(Error::Guard) => Ok(Value::Null),
            Err(error) => Err(error.into()),
        }
    }

    async fn dispatch(&self, request: &Value) -> Result<Value, Fault> {
        let mut dispatch = self.client(request)?.dispatch().await?;
        let mut promises = Vec::new();
        for words in list(request, "commands")? {
            promises.push(dispatch.send::<ClientReply>(command(words)?).await);
        }
        let mut outcomes = Vec::new();
        for promise in promises {
            let reply = match promise {
                Ok(promise) => promise.await,
                Err(error) => Err(error),
            };
            outcomes.push(match reply {
                Ok(reply) => plain(reply),
                Err(error) => json!({"error": described(&error)}),
            });
        }
        Ok(outcomes.into())
    }

    async fn operate(&self, request: &Value) -> Result<Value, Fault> {
        let client = self.client(request)?;
        let arguments: Vec<_> = list(request, "arguments")?.iter().map(word).collect();
        let arguments: Vec<_> = arguments.iter().map(|one| one as &dyn client::ToArg).collect();
        let value = definition(request)?.at(text(request, "key")?);
        Ok(plain(value.ask(&client, text(request, "operation")?, &arguments).await?))
    }

    fn cache(&self, request: &Value) -> Result<Value, Fault> {
        let usual = CacheOptions::default();
        let limit = |name, usual| count(request, name).map_or(usual, |limit| limit as usize);
        let options = CacheOptions {
            max_entries: limit("entries", usual.max_entries),
            max_reply_bytes: limit("reply_bytes", usual.max_reply_bytes),
        };
        let cache = self.client(request)?.cache(options);
        self.caches.borrow_mut().insert(text(request, "as")?.to_owned(), cache);
        Ok(Value::Null)
    }

    fn cache_of(&self, request: &Value) -> Result<Cache, Fault> {
        let name = text(request, "cache")?;
        self.caches.borrow().get(name).cloned().ok_or_else(|| unknown(name))
    }

    fn hold(&self, request: &Value, token: u64, held: Held) -> Result<Value, Fault> {
        let name = text(request, "as")?.to_owned();
        self.locks.borrow_mut().insert(name, Rc::new(held));
        Ok(json!({"token": token}))
    }

    async fn release(&self, name: &str) -> Result<Value, Fault> {
        let held = self.locks.borrow_mut().remove(name).ok_or_else(|| unknown(name))?;
        // A transaction that still requires it releases it by dropping it.
        if let Some(Held::Lock(lock)) = Rc::into_inner(held) {
            lock.release().await?;
        }
        Ok(Value::Null)
    }

    /// Lets a transaction take effect only if a lock is held.
    pub async fn require_in(&self, name: &str, tx: &mut Tx) -> Result<(), Error> {
        let held = self.locks.borrow().get(name).cloned();
        match held.as_deref() {
            Some(Held::Lock(lock)) => lock.require_in(tx).await,
            Some(Held::Stay(stay)) => stay.require_in(tx).await,
            None => Err(Error::Order(format!("there is no lock {name}"))),
        }
    }

    async fn proclaim(&self, request: &Value) -> Result<Value, Fault> {
        let name = text(request, "election")?;
        match &*self.held(name)? {
            Held::Lock(lock) => lock.proclaim(text(request, "value")?).await?,
            Held::Stay(_) => return Err(unknown(name)),
        };
        Ok(Value::Null)
    }

    async fn observe(&self, request: &Value) -> Result<Value, Fault> {
        let count = count(request, "count").unwrap_or(0) as usize;
        let mut leaders = self.client(request)?.observe(text(request, "name")?);
        let mut values = Vec::new();
        while values.len() < count {
            values.extend(leaders.next().await?.map(|leader| told(&leader.value)));
        }
        Ok(values.into())
    }

    fn retained(&self, request: &Value) -> Result<Value, Fault> {
        let lease = lock_options(request).lease;
        let options = RetainedOptions { lease, ..RetainedOptions::default() };
        let kept = self.client(request)?.retained(text(request, "name")?, options);
        self.kept.borrow_mut().insert(text(request, "as")?.to_owned(), kept);
        Ok(Value::Null)
    }

    async fn enter(&self, request: &Value) -> Result<Value, Fault> {
        let name = text(request, "retained")?;
        let kept = self.kept.borrow().get(name).cloned().ok_or_else(|| unknown(name))?;
        let stay = match time(request, "timeout") {
            Some(timeout) => {
                let entered = tokio::time::timeout(timeout, kept.lock()).await;
                entered.map_err(|_| Error::NotAcquired)??
            }
            None => kept.lock().await?,
        };
        self.hold(request, stay.token(), Held::Stay(stay))
    }
}

fn told(value: &[u8]) -> Value {
    String::from_utf8_lossy(value).into()
}

fn command(words: &Value) -> Result<Command, Error> {
    let words: Vec<_> = words.as_array().into_iter().flatten().map(word).collect();
    Command::from_words(&words)
}

fn words(request: &Value) -> Result<Command, Error> {
    command(&request["words"])
}

fn definition(request: &Value) -> Result<Type, Fault> {
    Ok(Type::parse(text(request, "definition")?)?)
}

fn lock_options(request: &Value) -> LockOptions {
    let default = LockOptions::default();
    let limit = count(request, "limit").map(Share::Limit);
    let shared = (request["shared"] == true).then_some(Share::Shared);
    let lease_ms = request["lease"].as_u64().unwrap_or(LEASE_MS);
    LockOptions {
        lease: std::time::Duration::from_millis(lease_ms),
        timeout: time(request, "timeout"),
        owner: request["owner"].as_str().map_or(default.owner, str::to_owned),
        share: limit.or(shared).unwrap_or(default.share),
        detect: request["detect"] == true,
        near: request["near"] == true,
        next: request["next"] == true,
    }
}
