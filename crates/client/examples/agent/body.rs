//! The function of a transaction, made of the steps of a request.

use crate::agent::{Agent, Under};
use crate::plain::{Fault, count, list, plain, time, word};
use client::{Client, ClientReply, Command, Deferred, Error, RetryPolicy, Tx, TxOptions};
use serde_json::{Value, json};
use std::cell::Cell;
use std::collections::HashMap;

/// A value that the function knows.
#[derive(Clone)]
enum Known {
    Value(Value),
    Deferred(Deferred<ClientReply>),
    List(Vec<Known>),
}

impl Known {
    /// The value after the commit, with replies in the place of deferred ones.
    fn settled(self) -> Result<Value, Error> {
        match self {
            Self::Value(value) => Ok(value),
            Self::Deferred(deferred) => deferred.value().map(plain),
            Self::List(items) => items.into_iter().map(Self::settled).collect(),
        }
    }

    /// The value within the transaction; a deferred reply has none.
    fn now(&self) -> Result<Value, Error> {
        self.clone().settled()
    }
}

struct Body<'a> {
    agent: &'a Agent,
    id: &'a Value,
    steps: &'a [Value],
    under: &'a Under,
    attempts: Cell<u32>,
}

/// Runs the function of a request as a transaction.
pub async fn run(
    agent: &Agent,
    client: &Client,
    request: &Value,
    under: &Under,
) -> Result<Value, Fault> {
    let steps = list(request, "body")?;
    let body = Body { agent, id: &request["id"], steps, under, attempts: Cell::new(0) };
    let options = options(&request["options"]);
    let value = client.run_with(options, |tx| body.call(tx)).await?;
    Ok(json!({"value": value.settled()?, "attempts": body.attempts.get()}))
}

fn options(given: &Value) -> TxOptions {
    let mut options = TxOptions::default();
    if given["strict"] == false {
        options = options.strict(false);
    }
    if given["update"] == true {
        options = options.for_update();
    }
    if given["readonly"] == true {
        options = options.readonly();
    }
    if let Some(text) = given["once"].as_str() {
        options = options.once(text);
    }
    if let Some(most) = count(given, "attempts_max") {
        options = options.attempts_max(most);
    }
    if let Some(deadline) = time(given, "deadline") {
        options = options.retry(RetryPolicy { deadline, ..RetryPolicy::default() });
    }
    options
}

impl Body<'_> {
    async fn call(&self, mut tx: Tx) -> Result<Known, Error> {
        self.attempts.set(self.attempts.get() + 1);
        self.under.is_committing.set(false);
        let (mut known, mut result) = (HashMap::new(), Known::Value(Value::Null));
        for step in self.steps {
            if let Some(words) = step["ask"].as_array() {
                let command = command(words, &known)?;
                let reply: ClientReply = match step["update"] == true {
                    true => tx.send_for_update(command).await?,
                    false => tx.send(command).await?,
                };
                known.insert(word(&step["as"]), Known::Value(plain(reply)));
            } else if let Some(words) = step["write"].as_array() {
                let deferred = tx.defer(command(words, &known)?).await?;
                known.insert(word(&step["as"]), Known::Deferred(deferred));
            } else if let Some(at) = step.get("pause") {
                if self.attempts.get() == 1 {
                    self.under.pause(self.id, at).await;
                }
            } else if let Some(name) = step["use"].as_str() {
                let value = word(&look(&known, name)?.now()?);
                tx.tell(Command::new("SET").arg("used").arg(value)).await?;
            } else if let Some(name) = step["require"].as_str() {
                self.agent.require_in(name, &mut tx).await?;
            } else if let Some(text) = step["fail"].as_str() {
                return Err(Error::Cancelled(text.to_owned()));
            } else if let Some(expression) = step.get("return") {
                result = returned(expression, &known)?;
            }
        }
        self.under.is_committing.set(true);
        Ok(result)
    }
}

fn look<'k>(known: &'k HashMap<String, Known>, name: &str) -> Result<&'k Known, Error> {
    known.get(name).ok_or_else(|| Error::Order(format!("no step has the name {name}")))
}

fn command(words: &[Value], known: &HashMap<String, Known>) -> Result<Command, Error> {
    let words = words.iter().map(|word| evaluated(word, known));
    Command::from_words(&words.collect::<Result<Vec<_>, _>>()?)
}

/// The text of an expression.
fn evaluated(expression: &Value, known: &HashMap<String, Known>) -> Result<String, Error> {
    if let Some(name) = expression["var"].as_str() {
        return Ok(word(&look(known, name)?.now()?));
    }
    let Some([term, number]) = expression["add"].as_array().map(Vec::as_slice) else {
        return Ok(word(expression));
    };
    // A nil counts as 0.
    let term = evaluated(term, known)?.parse().unwrap_or(0);
    Ok((term + number.as_i64().unwrap_or(0)).to_string())
}

/// A returned value: deferred replies stay what they are.
fn returned(expression: &Value, known: &HashMap<String, Known>) -> Result<Known, Error> {
    if let Some(items) = expression.as_array() {
        let items = items.iter().map(|item| returned(item, known));
        return Ok(Known::List(items.collect::<Result<_, _>>()?));
    }
    match expression["var"].as_str() {
        Some(name) => look(known, name).cloned(),
        None => Ok(Known::Value(evaluated(expression, known)?.into())),
    }
}
