//! One member of a consumer group. The client rebalances inside poll, so a thread polls between two steps and keeps what
//! comes for the next consume.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::{ClientContext, Offset, TopicPartitionList};
use rustagent::recordfile::{Record, Writer};
use rustagent::{results, unsupported, Failure, Outcome, Request, STEP};
use serde_json::json;

/// How many records a member keeps between two consume steps before it pauses its partitions.
const KEPT_MAX: usize = 5000;

/// What a rebalance looks at and changes. Its lock is never held over a poll, within which rebalances come.
#[derive(Default)]
struct Progress {
    topic: String,
    /// Of assigned partitions, the offset after what was written to the output file.
    written: BTreeMap<i32, i64>,
    kept: VecDeque<Record>,
    /// The output of the consume step in progress.
    out: Option<Writer>,
    closing: bool,
}

impl Progress {
    fn write(&mut self, record: &Record) -> std::io::Result<()> {
        self.written.insert(record.partition, record.offset + 1);
        self.out.as_mut().expect("a consume step is in progress").write(record)
    }

    fn to_commit(&self, partitions: impl Iterator<Item = i32>) -> KafkaResult<TopicPartitionList> {
        let mut offsets = TopicPartitionList::new();
        for p in partitions {
            if let Some(next) = self.written.get(&p) {
                offsets.add_partition_offset(&self.topic, p, Offset::Offset(*next))?;
            }
        }
        Ok(offsets)
    }
}

struct Rebalancing(Mutex<Progress>);

impl ClientContext for Rebalancing {}

impl ConsumerContext for Rebalancing {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        let Rebalance::Revoke(revoked) = rebalance else { return };
        let revoked: Vec<i32> = revoked.elements().iter().map(|p| p.partition()).collect();
        let mut progress = self.0.lock().unwrap();
        let flushed = progress.out.as_mut().map_or(Ok(()), |out| out.flush());
        let offsets = progress.to_commit(revoked.iter().copied());
        progress.written.retain(|p, _| !revoked.contains(p));
        progress.kept.retain(|r| !revoked.contains(&r.partition));
        if progress.closing || consumer.assignment_lost() {
            return;
        }
        let committed = match (flushed, offsets) {
            (Err(e), _) => Err(e.to_string()),
            (_, Err(e)) => Err(e.to_string()),
            (_, Ok(offsets)) if offsets.count() == 0 => Ok(()),
            (_, Ok(offsets)) => consumer.commit(&offsets, CommitMode::Sync).map_err(|e| e.to_string()),
        };
        if let Err(e) = committed {
            eprintln!("commit of revoked partitions: {e}");
        }
    }
}

/// The client's handle and whether its partitions are paused. Its lock is held over a poll.
struct Handle {
    consumer: Option<BaseConsumer<Rebalancing>>, // None once the member has left
    paused: bool,
}

pub struct Member {
    handle: Mutex<Handle>,
    stopping: AtomicBool,
    idle: Mutex<Option<JoinHandle<()>>>,
}

pub fn to_record(message: &BorrowedMessage<'_>) -> Result<Record, KafkaError> {
    let mut headers = Vec::new();
    if let Some(all) = message.headers() {
        for h in all.iter() {
            headers.push((h.key.to_string(), h.value.map(|v| v.to_vec())));
        }
    }
    Ok(Record {
        partition: message.partition(),
        offset: message.offset(),
        timestamp: message.timestamp().to_millis().unwrap_or(-1),
        key: message.key().map(|k| k.to_vec()),
        value: message.payload().map(|v| v.to_vec()),
        headers,
    })
}

impl Handle {
    fn consumer(&self) -> Result<&BaseConsumer<Rebalancing>, Failure> {
        self.consumer.as_ref().ok_or_else(|| Failure::Failed("the consumer is closed".into()))
    }

    /// The next record, if one comes within the time.
    fn poll(&self, limit: Duration) -> Result<Option<Record>, Failure> {
        match self.consumer()?.poll(limit) {
            None => Ok(None),
            Some(message) => Ok(Some(to_record(&message?)?)),
        }
    }

    fn pause(&mut self, on: bool) -> Result<(), Failure> {
        let consumer = self.consumer()?;
        let owned = consumer.assignment()?;
        if on {
            consumer.pause(&owned)?;
        } else {
            consumer.resume(&owned)?;
        }
        self.paused = on;
        Ok(())
    }

    /// One round of polling between two steps.
    fn idle(&mut self) -> Result<(), Failure> {
        if !self.paused && self.consumer()?.context().0.lock().unwrap().kept.len() >= KEPT_MAX {
            self.pause(true)?;
        }
        let mut limit = Duration::from_millis(50);
        for _ in 0..500 {
            let Some(record) = self.poll(limit)? else { break };
            self.consumer()?.context().0.lock().unwrap().kept.push_back(record);
            limit = Duration::ZERO;
        }
        Ok(())
    }

    fn read_into(&mut self, path: &str, count: usize, limit: Duration) -> Result<usize, Failure> {
        let deadline = Instant::now() + limit;
        let mut n = 0;
        {
            let mut progress = self.consumer()?.context().0.lock().unwrap();
            progress.out = Some(Writer::append(path)?);
            while n < count {
                let Some(record) = progress.kept.pop_front() else { break };
                progress.write(&record)?;
                n += 1;
            }
        }
        while n < count && Instant::now() < deadline {
            if self.paused {
                self.pause(false)?;
            }
            if let Some(record) = self.poll(Duration::from_millis(100))? {
                self.consumer()?.context().0.lock().unwrap().write(&record)?;
                n += 1;
            }
        }
        if let Some(mut out) = self.consumer()?.context().0.lock().unwrap().out.take() {
            out.flush()?;
        }
        Ok(n)
    }
}

impl Member {
    pub fn open(bootstrap: &str, r: &Request) -> Result<Arc<Member>, Failure> {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", bootstrap)
            .set("group.id", r.text("group"))
            .set("enable.auto.commit", "false")
            .set("auto.offset.reset", "earliest")
            .set("isolation.level", "read_uncommitted");
        if !r.text("instance").is_empty() {
            config.set("group.instance.id", r.text("instance"));
        }
        let strategy = r.text("strategy");
        if r.text("protocol") == "consumer" {
            // KIP-848: the broker assigns, by an assignor of its own that the member may name.
            config.set("group.protocol", "consumer");
            if !strategy.is_empty() {
                config.set("group.remote.assignor", strategy);
            }
        } else {
            let strategy = if strategy.is_empty() { "range" } else { strategy };
            if !["range", "roundrobin", "cooperative-sticky"].contains(&strategy) {
                return unsupported(&format!("the client has no assignor {strategy}"));
            }
            config.set("partition.assignment.strategy", strategy);
            config.set("session.timeout.ms", "10000");
            config.set("heartbeat.interval.ms", "300"); // how soon a member hears of a rebalance
        }
        let progress = Progress { topic: r.text("topic").to_string(), ..Progress::default() };
        let consumer: BaseConsumer<Rebalancing> = config.create_with_context(Rebalancing(Mutex::new(progress)))?;
        consumer.subscribe(&[r.text("topic")])?;
        let handle = Mutex::new(Handle { consumer: Some(consumer), paused: false });
        let member = Arc::new(Member { handle, stopping: AtomicBool::new(false), idle: Mutex::default() });
        let idling = member.clone();
        *member.idle.lock().unwrap() = Some(std::thread::spawn(move || {
            while !idling.stopping.load(Ordering::Relaxed) {
                let round = idling.handle.lock().unwrap().idle();
                if let Err(Failure::Failed(e) | Failure::Unsupported(e)) = round {
                    eprintln!("poll between two steps: {e}");
                }
                // A standard mutex is not fair: this lets a step have the client.
                std::thread::sleep(Duration::from_millis(2));
            }
        }));
        Ok(member)
    }

    pub fn consume(&self, r: &Request) -> Outcome {
        let mut handle = self.handle.lock().unwrap();
        let mut count = 0;
        if r.number("count") > 0 {
            count = handle.read_into(r.text("out"), r.number("count") as usize, r.limit())?;
        }
        let owned = handle.consumer()?.assignment()?;
        let mut assignment: Vec<i32> = owned.elements().iter().map(|p| p.partition()).collect();
        assignment.sort();
        results(json!({ "count": count, "assignment": assignment }))
    }

    pub fn commit(&self) -> Outcome {
        let deadline = Instant::now() + STEP;
        loop {
            match self.commit_written() {
                // The rebalance has to be finished by polling.
                Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::RebalanceInProgress | RDKafkaErrorCode::StaleMemberEpoch))
                    if Instant::now() < deadline =>
                {
                    std::thread::sleep(Duration::from_millis(100));
                }
                Err(e) => return Err(e.into()),
                Ok(()) => return results(json!({})),
            }
        }
    }

    fn commit_written(&self) -> KafkaResult<()> {
        let handle = self.handle.lock().unwrap();
        let Some(consumer) = &handle.consumer else { return Ok(()) };
        let offsets = {
            let progress = consumer.context().0.lock().unwrap();
            progress.to_commit(progress.written.keys().copied())?
        };
        if offsets.count() == 0 {
            return Ok(());
        }
        consumer.commit(&offsets, CommitMode::Sync)
    }

    /// Leaves the group without committing.
    pub fn leave(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        if let Some(idle) = self.idle.lock().unwrap().take() {
            idle.join().expect("the thread that polls between two steps");
        }
        let mut handle = self.handle.lock().unwrap();
        if let Some(consumer) = &handle.consumer {
            consumer.context().0.lock().unwrap().closing = true;
        }
        handle.consumer = None; // dropping it closes it
    }
}
