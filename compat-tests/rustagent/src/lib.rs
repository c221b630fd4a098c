//! The side of the agent protocol (../PROTOCOL.md) that every agent in Rust shares: the flags, the hello line, reading
//! requests, the order in which they are carried out, and writing answers; and the protocol's record files.
//!
//! It knows no Kafka client: an agent hands it one function. It promises that the steps of one consumer run in the order
//! they came, that different consumers run at the same time, that all other steps run one after another beside them, and
//! that each request gets exactly one answer.

pub mod recordfile;

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::sync::mpsc::{channel, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{json, Map, Value};

/// How long a step takes at most that names no limit of its own.
pub const STEP: Duration = Duration::from_secs(60);

/// What became of a step that did not go well.
pub enum Failure {
    /// The client has no call for it; the text says why.
    Unsupported(String),
    /// What the client reported.
    Failed(String),
}

impl<E: std::fmt::Display> From<E> for Failure {
    fn from(e: E) -> Failure {
        Failure::Failed(e.to_string())
    }
}

/// A failure that the client has no call for the step.
pub fn unsupported<T>(why: &str) -> Result<T, Failure> {
    Err(Failure::Unsupported(why.to_string()))
}

/// A step's results: the answer's fields.
pub type Outcome = Result<Map<String, Value>, Failure>;

/// The fields of a JSON object, as a step's results.
pub fn results(object: Value) -> Outcome {
    match object {
        Value::Object(fields) => Ok(fields),
        other => Err(Failure::Failed(format!("results that are no object: {other}"))),
    }
}

/// One request of the driver.
pub struct Request(Value);

impl Request {
    pub fn step(&self) -> &str {
        self.text("step")
    }

    /// A field's text, empty if it is absent.
    pub fn text(&self, field: &str) -> &str {
        self.0[field].as_str().unwrap_or("")
    }

    /// A field's number, 0 if it is absent.
    pub fn number(&self, field: &str) -> i64 {
        self.0[field].as_i64().unwrap_or(0)
    }

    /// A field's truth, false if it is absent.
    pub fn flag(&self, field: &str) -> bool {
        self.0[field].as_bool().unwrap_or(false)
    }

    /// The pairs of an object of strings.
    pub fn pairs(&self, field: &str) -> Vec<(&str, &str)> {
        match &self.0[field] {
            Value::Object(fields) => fields.iter().filter_map(|(k, v)| Some((k.as_str(), v.as_str()?))).collect(),
            _ => Vec::new(),
        }
    }

    /// The step's time-out.
    pub fn limit(&self) -> Duration {
        match self.number("timeout_ms") {
            ms if ms > 0 => Duration::from_millis(ms as u64),
            _ => STEP,
        }
    }
}

/// The --bootstrap that every agent is started with; --dir, which comes too, no agent in Rust needs.
pub fn bootstrap() -> String {
    let arguments: Vec<String> = std::env::args().collect();
    for pair in arguments.windows(2) {
        if pair[0] == "--bootstrap" {
            return pair[1].clone();
        }
    }
    eprintln!("an agent is started with --bootstrap HOST:PORT --dir WORKDIR");
    std::process::exit(2);
}

/// The version of a package in the text of a Cargo.lock, as the table is to name it.
pub fn locked_version<'a>(lock: &'a str, package: &str) -> &'a str {
    let wanted = format!("name = \"{package}\"");
    let mut lines = lock.lines().skip_while(|line| *line != wanted);
    lines.nth(1).and_then(|line| line.split('"').nth(1)).unwrap_or("unknown")
}

/// Answers requests until standard input ends and all steps in progress are answered.
pub fn serve<F>(hello: Value, carry_out: F) -> Result<(), Box<dyn std::error::Error>>
where
    F: Fn(&Request) -> Outcome + Send + Sync + 'static,
{
    let carry_out = Arc::new(carry_out);
    let out = Arc::new(Mutex::new(std::io::stdout()));
    write_line(&out, &json!({ "hello": hello }))?;
    let mut queues: HashMap<String, (Sender<Request>, JoinHandle<()>)> = HashMap::new(); // by consumer; "" is all else
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let request = Request(serde_json::from_str(&line).map_err(|e| format!("request {line:?}: {e}"))?);
        let (queue, _) = queues.entry(request.text("consumer").to_string()).or_insert_with(|| {
            let (sender, receiver) = channel::<Request>();
            let (carry_out, out) = (carry_out.clone(), out.clone());
            let thread = std::thread::spawn(move || {
                for request in receiver {
                    if let Err(e) = write_line(&out, &answer(&request, carry_out.as_ref())) {
                        eprintln!("write an answer: {e}");
                    }
                }
            });
            (sender, thread)
        });
        queue.send(request).map_err(|_| "the thread of a consumer is gone")?;
    }
    for (_, (queue, thread)) in queues {
        drop(queue);
        thread.join().map_err(|_| "the thread of a consumer has panicked")?;
    }
    Ok(())
}

fn write_line(out: &Mutex<std::io::Stdout>, message: &Value) -> std::io::Result<()> {
    let mut out = out.lock().unwrap();
    writeln!(out, "{message}")?;
    out.flush()
}

fn answer<F: Fn(&Request) -> Outcome>(request: &Request, carry_out: &F) -> Value {
    let id = request.0["id"].clone();
    match carry_out(request) {
        Ok(mut fields) => {
            fields.insert("id".into(), id);
            fields.insert("ok".into(), true.into());
            Value::Object(fields)
        }
        Err(Failure::Unsupported(why)) => json!({ "id": id, "unsupported": why }),
        Err(Failure::Failed(error)) => json!({ "id": id, "ok": false, "error": error }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        let lock = "[[package]]\nname = \"a-b\"\nversion = \"2\"\n\n[[package]]\nname = \"a\"\nversion = \"1.0.3\"\n";
        assert_eq!((locked_version(lock, "a"), locked_version(lock, "b")), ("1.0.3", "unknown"));
    }

    #[test]
    fn answers() {
        let request = Request(json!({ "id": 7, "step": "dance", "count": 3, "configs": { "a": "b" } }));
        assert_eq!((request.step(), request.number("count"), request.number("none")), ("dance", 3, 0));
        assert_eq!(request.pairs("configs"), [("a", "b")]);
        assert_eq!(request.limit(), STEP);
        assert_eq!(answer(&request, &|_: &Request| results(json!({ "count": 1 }))), json!({ "id": 7, "ok": true, "count": 1 }));
        assert_eq!(answer(&request, &|_: &Request| unsupported("no feet")), json!({ "id": 7, "unsupported": "no feet" }));
        let failing = |_: &Request| -> Outcome { Err("fell".into()) };
        assert_eq!(answer(&request, &failing), json!({ "id": 7, "ok": false, "error": "fell" }));
    }
}
