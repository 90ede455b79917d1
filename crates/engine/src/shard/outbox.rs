//! Answers that the gateways have not taken yet.

use crate::ids::{GatewayId, Token};
use crate::message::{Answer, Body, Notice, Response};
use std::collections::VecDeque;

/// Answers for gateways, in order.
#[derive(Debug, Default)]
pub struct Outbox(VecDeque<Response>);

impl Outbox {
    /// Adds an answer for a gateway.
    pub fn answer(&mut self, gateway: GatewayId, token: Token, answer: Answer) {
        self.0.push_back(Response { gateway, token, answer });
    }

    /// Adds a notice for a gateway.
    pub fn notice(&mut self, gateway: GatewayId, token: Token, notice: Notice) {
        self.answer(gateway, token, Answer::Notice(notice));
    }

    /// Answers that nothing of a request has happened here.
    pub fn turn_away(&mut self, gateway: GatewayId, token: Token, body: Body) {
        if let Some(answer) = body.not_taken() {
            self.answer(gateway, token, answer);
        }
    }

    /// Takes the next answer.
    #[inline]
    pub fn poll(&mut self) -> Option<Response> {
        self.0.pop_front()
    }

    /// Whether there are no answers.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Drops all answers.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}
