//! The compatibility suite's agent for the crate rskafka: it makes the client's calls that the driver asks for over the
//! agent protocol (PROTOCOL.md), and checks nothing itself.
//!
//! The client knows topics, and partitions one at a time; it has neither groups nor a partitioner.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, Utc};
use rskafka::client::partition::{Compression, OffsetAt, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder};
use rskafka::record::Record;
use rustagent::recordfile::{self, Reader, Writer};
use rustagent::{results, unsupported, Failure, Outcome, Request, STEP};
use serde_json::json;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{channel, Receiver};
use tokio::task::JoinHandle;
use tokio::time::{timeout, Instant};

/// How many records, and about how many bytes, are sent in one batch at most.
const BATCH_RECORDS: usize = 2000;
const BATCH_BYTES: usize = 256 << 10;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bootstrap = rustagent::bootstrap();
    let runtime = Runtime::new()?;
    let client = Arc::new(runtime.block_on(ClientBuilder::new(vec![bootstrap]).build())?);
    let hello = json!({
        "client": "rskafka",
        "version": rustagent::locked_version(include_str!("../Cargo.lock"), "rskafka"),
        "cannot": ["null-header-value", "repeated-header"],
        "note": "it has no partitioner: the agent chooses partitions, by a hash of the key",
    });
    rustagent::serve(hello, move |r| {
        let limit = r.limit();
        let step = async {
            match r.step() {
                "create-topic" => create_topic(&client, r).await,
                "produce" => produce(&client, r).await,
                "seek-time" => seek_time(&client, r).await,
                "delete-topic" => {
                    client.controller_client()?.delete_topic(r.text("topic"), STEP.as_millis() as i32).await?;
                    results(json!({}))
                }
                "describe-topic" => unsupported("the client lists topics without leaders and replicas"),
                "describe-configs" => unsupported("the client has no call to describe configs"),
                "describe-group" | "lag" | "delete-group" => unsupported("the client has no calls about groups"),
                _ => unsupported("the client has no groups"),
            }
        };
        // The client tries for ever what may yet succeed.
        runtime.block_on(async { timeout(limit + Duration::from_secs(5), step).await })?
    })
}

async fn create_topic(client: &Client, r: &Request) -> Outcome {
    if !r.pairs("configs").is_empty() {
        return unsupported("the client creates topics without configs");
    }
    let controller = client.controller_client()?;
    controller.create_topic(r.text("topic"), r.number("partitions") as i32, 1, STEP.as_millis() as i32).await?;
    results(json!({}))
}

/// The clients of all partitions of a topic.
async fn partitions(client: &Client, name: &str) -> Result<BTreeMap<i32, Arc<PartitionClient>>, Failure> {
    let topics = client.list_topics().await?;
    let topic = topics.into_iter().find(|t| t.name == name);
    let topic = topic.ok_or_else(|| Failure::Failed(format!("there is no topic {name}")))?;
    let mut clients = BTreeMap::new();
    for p in topic.partitions {
        clients.insert(p, Arc::new(client.partition_client(name, p, UnknownTopicHandling::Retry).await?));
    }
    Ok(clients)
}

/// How many records a partition's task sent, and the offset of the last of them.
type Sent = Result<(usize, Option<i64>), rskafka::client::error::Error>;

async fn produce(client: &Client, r: &Request) -> Outcome {
    if r.flag("idempotent") {
        return unsupported("the client has no idempotence");
    }
    if !["", "all"].contains(&r.text("acks")) {
        return unsupported("the client asks for all acknowledgements, always");
    }
    let compression = match r.text("codec") {
        "none" => Compression::NoCompression,
        "gzip" => Compression::Gzip,
        "snappy" => Compression::Snappy,
        "lz4" => Compression::Lz4,
        "zstd" => Compression::Zstd,
        other => return unsupported(&format!("the client has no {other}")),
    };
    let partitions = partitions(client, r.text("topic")).await?;
    let count = partitions.len() as u64;
    let mut queues = BTreeMap::new();
    let mut tasks: BTreeMap<i32, JoinHandle<Sent>> = BTreeMap::new();
    for (p, partition) in partitions {
        let (queue, records) = channel(2 * BATCH_RECORDS);
        queues.insert(p, queue);
        tasks.insert(p, tokio::spawn(send_all(partition, records, compression)));
    }
    for record in Reader::open(r.text("file"))? {
        let record = record?;
        let p = match record.partition {
            -1 => (hash(&record.key) % count) as i32,
            p => p,
        };
        let queue = queues.get(&p).ok_or_else(|| Failure::Failed(format!("there is no partition {p}")))?;
        if queue.send(to_send(record)).await.is_err() {
            break; // the partition's task has failed, and says why
        }
    }
    drop(queues);
    let (mut count, mut offsets) = (0, BTreeMap::new());
    for (p, task) in tasks {
        let (sent, last) = task.await??;
        count += sent;
        if let Some(last) = last {
            offsets.insert(p, last);
        }
    }
    results(json!({ "count": count, "offsets": offsets }))
}

fn hash(key: &Option<Vec<u8>>) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

/// Sends one partition's records, a batch at a time and in their order.
async fn send_all(partition: Arc<PartitionClient>, mut records: Receiver<Record>, compression: Compression) -> Sent {
    let (mut count, mut last) = (0, None);
    let mut next = records.recv().await;
    while let Some(record) = next {
        let mut bytes = record.approximate_size();
        let mut batch = vec![record];
        next = records.recv().await;
        while let Some(record) = next {
            bytes += record.approximate_size();
            if batch.len() == BATCH_RECORDS || bytes > BATCH_BYTES {
                next = Some(record);
                break;
            }
            batch.push(record);
            next = records.recv().await;
        }
        count += batch.len();
        last = partition.produce(batch, compression).await?.last().copied().or(last);
    }
    Ok((count, last))
}

fn to_send(r: recordfile::Record) -> Record {
    let own = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as i64);
    let timestamp = if r.timestamp >= 0 { r.timestamp } else { own() };
    Record {
        key: r.key,
        value: r.value,
        headers: r.headers.into_iter().map(|(name, value)| (name, value.unwrap_or_default())).collect(),
        timestamp: time(timestamp),
    }
}

fn time(ms: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(ms).unwrap_or_default()
}

async fn seek_time(client: &Client, r: &Request) -> Outcome {
    let deadline = Instant::now() + r.limit();
    let mut offsets = BTreeMap::new();
    let mut reading = Vec::new();
    for (p, partition) in partitions(client, r.text("topic")).await? {
        let offset = partition.get_offset(OffsetAt::Timestamp(time(r.number("timestamp")))).await?;
        offsets.insert(p, offset);
        if offset >= 0 {
            reading.push((p, partition, offset));
        }
    }
    let mut out = Writer::append(r.text("out"))?;
    let mut left = r.number("count");
    while left > 0 && !reading.is_empty() && Instant::now() < deadline {
        for (p, partition, next) in &mut reading {
            let (records, high_watermark) = partition.fetch_records(*next, 1..4_000_000, 100).await?;
            for fetched in records {
                // What is fetched begins with the batch that holds the offset.
                if fetched.offset < *next || left <= 0 {
                    continue;
                }
                *next = fetched.offset + 1;
                left -= 1;
                let record = fetched.record;
                out.write(&recordfile::Record {
                    partition: *p,
                    offset: fetched.offset,
                    timestamp: record.timestamp.timestamp_millis(),
                    key: record.key,
                    value: record.value,
                    headers: record.headers.into_iter().map(|(name, value)| (name, Some(value))).collect(),
                })?;
            }
            if *next >= high_watermark {
                *next = i64::MAX; // nothing is left of it
            }
        }
        reading.retain(|(_, _, next)| *next < i64::MAX);
    }
    out.flush()?;
    results(json!({ "offsets": offsets }))
}
