//! Agent of this client for `clients/conformance`: does what the stories ask for with the public
//! interface. It reads requests from standard input, one JSON object a line, carries them out side by
//! side, and writes an answer to each to standard output.

mod agent;
mod body;
mod plain;

use agent::{Agent, Under};
use plain::Fault;
use serde_json::{Value, json};
use std::io::{BufRead, Write};
use std::rc::Rc;
use tokio::sync::mpsc;
use tokio::task::LocalSet;

/// Writes one line to standard output.
fn write(line: &Value) {
    let mut out = std::io::stdout().lock();
    // When the runner is gone, the end of standard input ends the agent.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Carries a request out and writes its answer.
async fn answer(agent: Rc<Agent>, request: Value, under: Rc<Under>) {
    let done = tokio::select! {
        done = agent.carry_out(&request, &under) => done,
        () = under.given_up() => Err(under.outcome(&request)),
    };
    let id = &request["id"];
    write(&match done {
        Ok(value) => json!({"id": id, "value": value}),
        Err(fault) => json!({"id": id, "error": fault.described()}),
    });
    agent.forget(id);
}

async fn serve(mut lines: mpsc::UnboundedReceiver<String>) {
    let agent = Rc::new(Agent::default());
    while let Some(line) = lines.recv().await {
        match serde_json::from_str::<Value>(&line) {
            Ok(request) => {
                let under = agent.begin(&request["id"]);
                tokio::task::spawn_local(answer(Rc::clone(&agent), request, under));
            }
            Err(error) => write(&json!({"error": Fault::Agent(error.to_string()).described()})),
        }
    }
}

fn main() -> std::io::Result<()> {
    let (lines, incoming) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if lines.send(line).is_err() {
                return;
            }
        }
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, serve(incoming));
    Ok(())
}
