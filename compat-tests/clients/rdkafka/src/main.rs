//! The compatibility suite's agent for the crate rdkafka (librdkafka): it makes the client's calls that the driver asks for
//! over the agent protocol (PROTOCOL.md), and checks nothing itself.

mod broker;
mod member;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use rdkafka::util::get_rdkafka_version;
use rustagent::{results, unsupported, Failure, Outcome, Request};
use serde_json::json;

use member::Member;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bootstrap = rustagent::bootstrap();
    let steps = broker::Steps::new(&bootstrap)?;
    let members: Mutex<HashMap<String, Arc<Member>>> = Mutex::default();
    let new_groups: Mutex<HashSet<String>> = Mutex::default(); // of the consumer protocol (KIP-848)
    let hello = json!({
        "client": "rdkafka",
        "version": rustagent::locked_version(include_str!("../Cargo.lock"), "rdkafka"),
        "note": format!("librdkafka {}", get_rdkafka_version().1),
    });
    rustagent::serve(hello, move |r| match r.step() {
        "create-topic" => steps.create_topic(r),
        "produce" => steps.produce(r),
        "seek-time" => steps.seek_time(r),
        "describe-topic" => steps.describe_topic(r),
        "describe-configs" => steps.describe_configs(r),
        "describe-group" if new_groups.lock().unwrap().contains(r.text("group")) => {
            unsupported("the client describes classic groups only")
        }
        "describe-group" => steps.describe_group(r),
        "lag" => steps.lag(r),
        "delete-topic" => steps.delete_topic(r),
        "delete-group" => steps.delete_group(r),
        "consumer-open" => {
            if r.text("protocol") == "consumer" {
                new_groups.lock().unwrap().insert(r.text("group").to_string());
            }
            open(&bootstrap, &members, r)
        }
        "consume" => member(&members, r)?.consume(r),
        "commit" => member(&members, r)?.commit(),
        "consumer-close" => {
            let member = member(&members, r)?;
            members.lock().unwrap().remove(r.text("consumer"));
            member.leave();
            results(json!({}))
        }
        other => unsupported(&format!("the agent has no step {other}")),
    })
}

fn open(bootstrap: &str, members: &Mutex<HashMap<String, Arc<Member>>>, r: &Request) -> Outcome {
    let name = r.text("consumer").to_string();
    if members.lock().unwrap().contains_key(&name) {
        return Err(Failure::Failed(format!("consumer {name} is open already")));
    }
    let member = Member::open(bootstrap, r)?;
    members.lock().unwrap().insert(name, member);
    results(json!({}))
}

fn member(members: &Mutex<HashMap<String, Arc<Member>>>, r: &Request) -> Result<Arc<Member>, Failure> {
    let name = r.text("consumer");
    let members = members.lock().unwrap();
    members.get(name).cloned().ok_or_else(|| Failure::Failed(format!("no consumer {name} is open")))
}
