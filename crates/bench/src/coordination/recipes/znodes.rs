//! Locks on nodes: one recipe for all requests, one session per client.

use super::locker::{Locker, Told};
use super::nodes::Nodes;
use super::{Recipes, make};
use crate::coordination::services::client::{Counts, Heard};
use model::Algorithm;
use std::io;

/// A locker that uses one recipe.
pub struct Znodes<'a, N> {
    nodes: &'a mut N,
    recipes: Recipes,
    algorithm: Algorithm,
    base: String,
    heard: Vec<Heard>,
}

impl<'a, N: Nodes> Znodes<'a, N> {
    /// Creates a lock below a new node `base`, for these sessions.
    ///
    /// # Errors
    /// The node cannot be created.
    pub fn new(
        nodes: &'a mut N,
        algorithm: Algorithm,
        base: &str,
        poll_ns: u64,
        ephemeral: bool,
    ) -> io::Result<Self> {
        make(nodes, base)?;
        let recipes = Recipes::new(poll_ns, ephemeral);
        Ok(Self { nodes, recipes, algorithm, base: base.to_owned(), heard: Vec::new() })
    }
}

impl<N: Nodes> Locker for Znodes<'_, N> {
    fn now_ns(&self) -> u64 {
        self.nodes.now_ns()
    }

    fn acquire(&mut self, request: usize, client: usize) {
        self.recipes.begin(self.nodes, request, client, self.algorithm, &self.base);
    }

    fn release(&mut self, request: usize) {
        self.recipes.leave(self.nodes, request);
    }

    fn wait(&mut self, until_ns: u64, told: &mut Vec<Told>) -> io::Result<()> {
        while told.is_empty() {
            self.nodes.wait(until_ns, &mut self.heard)?;
            for heard in self.heard.drain(..) {
                self.recipes.hear(self.nodes, heard, told)?;
            }
            if self.nodes.now_ns() >= until_ns {
                break;
            }
        }
        Ok(())
    }

    fn counts(&self) -> Counts {
        self.nodes.counts()
    }
}
