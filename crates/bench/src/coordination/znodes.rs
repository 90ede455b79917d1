//! Locks on nodes of ZooKeeper's protocol: one recipe for all requests, one session per client.

use super::client::{Client, Counts, Heard};
use super::locker::{Locker, Told};
use super::recipes::{Recipes, create};
use model::Algorithm;
use std::io;
use wire::jute::Mode;

/// A locker that uses one recipe.
pub struct Znodes {
    client: Client,
    recipes: Recipes,
    algorithm: Algorithm,
    base: String,
    heard: Vec<Heard>,
}

impl Znodes {
    /// A lock below a new node `base`, for the sessions of this client.
    ///
    /// # Errors
    /// The node cannot be created.
    pub fn new(
        mut client: Client,
        algorithm: Algorithm,
        base: &str,
        poll_ns: u64,
        ephemeral: bool,
    ) -> io::Result<Self> {
        let made = client.call(0, create(base, b"", Mode::default()))?;
        made.map_err(|code| io::Error::other(format!("{base} was not created: {code:?}")))?;
        let recipes = Recipes::new(poll_ns, ephemeral);
        Ok(Self { client, recipes, algorithm, base: base.to_owned(), heard: Vec::new() })
    }

    /// Ends the sessions.
    ///
    /// # Errors
    /// The service does not answer.
    pub fn close(self) -> io::Result<()> {
        self.client.close()
    }
}

impl Locker for Znodes {
    fn now_ns(&self) -> u64 {
        self.client.now_ns()
    }

    fn acquire(&mut self, request: usize, client: usize) {
        self.recipes.begin(&mut self.client, request, client, self.algorithm, &self.base);
    }

    fn release(&mut self, request: usize) {
        self.recipes.leave(&mut self.client, request);
    }

    fn wait(&mut self, until_ns: u64, told: &mut Vec<Told>) -> io::Result<()> {
        let mut heard = std::mem::take(&mut self.heard);
        while told.is_empty() {
            self.client.wait(until_ns, &mut heard)?;
            for heard in heard.drain(..) {
                match heard {
                    Heard::Answer(answer) => {
                        self.recipes.answer(&mut self.client, answer, told)?;
                    }
                    Heard::Event { session, event } => {
                        self.recipes.event(&mut self.client, session, &event, told);
                    }
                    Heard::Due(request) => self.recipes.due(&mut self.client, request),
                    Heard::Lost(_) => {}
                }
            }
            if self.client.now_ns() >= until_ns {
                break;
            }
        }
        self.heard = heard;
        Ok(())
    }

    fn counts(&self) -> Counts {
        self.client.counts()
    }
}
