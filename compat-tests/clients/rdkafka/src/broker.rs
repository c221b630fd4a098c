//! The steps that need no group member.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use futures_executor::block_on;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, Message, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use rdkafka::{ClientContext, Offset, TopicPartitionList};
use rustagent::recordfile::{Reader, Record, Writer};
use rustagent::{results, Failure, Outcome, Request, STEP};
use serde_json::json;

use crate::member::to_record;

pub struct Steps {
    bootstrap: String,
    admin: AdminClient<DefaultClientContext>,
}

/// Counts what becomes of the records sent.
#[derive(Default)]
struct Deliveries(Mutex<Delivered>);

#[derive(Default)]
struct Delivered {
    count: usize,
    offsets: BTreeMap<i32, i64>,
    failure: Option<KafkaError>,
}

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, _: ()) {
        let mut seen = self.0.lock().unwrap();
        match result {
            Ok(message) => {
                seen.count += 1;
                // Acknowledgements of a partition come in the order of its offsets.
                seen.offsets.insert(message.partition(), message.offset());
            }
            Err((error, _)) => seen.failure = Some(error.clone()),
        }
    }
}

fn options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(STEP)).operation_timeout(Some(STEP))
}

/// The error of a call that answers for one thing at a time.
fn first<T>(answers: Vec<Result<T, (String, RDKafkaErrorCode)>>) -> Result<(), Failure> {
    for answer in answers {
        if let Err((name, code)) = answer {
            return Err(Failure::Failed(format!("{name}: {code}")));
        }
    }
    Ok(())
}

impl Steps {
    pub fn new(bootstrap: &str) -> Result<Steps, KafkaError> {
        let admin = ClientConfig::new().set("bootstrap.servers", bootstrap).create()?;
        Ok(Steps { bootstrap: bootstrap.to_string(), admin })
    }

    /// A consumer that joins no group. The client wants a group's name even so.
    fn consumer(&self, group: &str) -> Result<BaseConsumer, KafkaError> {
        ClientConfig::new()
            .set("bootstrap.servers", &self.bootstrap)
            .set("group.id", group)
            .set("enable.auto.commit", "false")
            .set("auto.offset.reset", "error")
            .create()
    }

    pub fn create_topic(&self, r: &Request) -> Outcome {
        let mut topic = NewTopic::new(r.text("topic"), r.number("partitions") as i32, TopicReplication::Fixed(1));
        for (name, value) in r.pairs("configs") {
            topic = topic.set(name, value);
        }
        first(block_on(self.admin.create_topics([&topic], &options()))?)?;
        results(json!({}))
    }

    pub fn produce(&self, r: &Request) -> Outcome {
        let idempotent = r.flag("idempotent");
        let acks = if r.text("acks").is_empty() { "all" } else { r.text("acks") };
        let producer: BaseProducer<Deliveries> = ClientConfig::new()
            .set("bootstrap.servers", &self.bootstrap)
            .set("compression.type", r.text("codec"))
            .set("enable.idempotence", idempotent.to_string())
            .set("acks", acks)
            // Without sequence numbers a retry could overtake a later request.
            .set("max.in.flight.requests.per.connection", if idempotent { "5" } else { "1" })
            .set("linger.ms", "10")
            .set("batch.size", "262144")
            .set("message.max.bytes", "4000000")
            .set("message.timeout.ms", r.limit().as_millis().to_string())
            .create_with_context(Deliveries::default())?;
        let topic = r.text("topic");
        let mut sent = 0;
        for record in Reader::open(r.text("file"))? {
            send(&producer, topic, &record?)?;
            sent += 1;
            if sent % 1000 == 0 {
                producer.poll(Duration::ZERO);
            }
        }
        producer.flush(r.limit())?;
        let seen = producer.context().0.lock().unwrap();
        if let Some(failure) = &seen.failure {
            return Err(failure.into());
        }
        if acks == "0" {
            return results(json!({ "count": seen.count })); // then the client knows no offsets
        }
        results(json!({ "count": seen.count, "offsets": seen.offsets }))
    }

    pub fn seek_time(&self, r: &Request) -> Outcome {
        let consumer = self.consumer("no-group")?;
        let topic = r.text("topic");
        let mut asked = TopicPartitionList::new();
        for partition in self.partitions(topic)? {
            asked.add_partition_offset(topic, partition, Offset::Offset(r.number("timestamp")))?;
        }
        let mut offsets = BTreeMap::new();
        let mut starts = TopicPartitionList::new();
        for found in consumer.offsets_for_times(asked, STEP)?.elements() {
            found.error()?;
            offsets.insert(found.partition(), -1);
            if let Offset::Offset(offset) = found.offset() {
                offsets.insert(found.partition(), offset);
                starts.add_partition_offset(topic, found.partition(), Offset::Offset(offset))?;
            }
        }
        if starts.count() > 0 {
            let mut out = Writer::append(r.text("out"))?;
            let (deadline, mut left) = (Instant::now() + r.limit(), r.number("count"));
            consumer.assign(&starts)?;
            while left > 0 && Instant::now() < deadline {
                if let Some(message) = consumer.poll(Duration::from_millis(100)) {
                    out.write(&to_record(&message?)?)?;
                    left -= 1;
                }
            }
            out.flush()?;
        }
        results(json!({ "offsets": offsets }))
    }

    fn partitions(&self, topic: &str) -> Result<Vec<i32>, Failure> {
        let metadata = self.admin.inner().fetch_metadata(Some(topic), STEP)?;
        Ok(metadata.topics().iter().flat_map(|t| t.partitions()).map(|p| p.id()).collect())
    }

    pub fn describe_topic(&self, r: &Request) -> Outcome {
        let metadata = self.admin.inner().fetch_metadata(Some(r.text("topic")), STEP)?;
        let mut partitions = Vec::new();
        for topic in metadata.topics() {
            if let Some(error) = topic.error() {
                return Err(Failure::Failed(format!("{}: {error:?}", topic.name())));
            }
            for p in topic.partitions() {
                if let Some(error) = p.error() {
                    return Err(Failure::Failed(format!("partition {}: {error:?}", p.id())));
                }
                partitions.push((p.id(), json!({ "id": p.id(), "leader": p.leader(), "replicas": p.replicas(), "isr": p.isr() })));
            }
        }
        partitions.sort_by_key(|(id, _)| *id);
        let partitions: Vec<_> = partitions.into_iter().map(|(_, description)| description).collect();
        results(json!({ "partitions": partitions }))
    }

    pub fn describe_configs(&self, r: &Request) -> Outcome {
        let topic = ResourceSpecifier::Topic(r.text("topic"));
        let mut configs = BTreeMap::new();
        for resource in block_on(self.admin.describe_configs([&topic], &options()))? {
            for entry in resource?.entries {
                configs.insert(entry.name, entry.value);
            }
        }
        results(json!({ "configs": configs }))
    }

    pub fn describe_group(&self, r: &Request) -> Outcome {
        let groups = self.admin.inner().fetch_group_list(Some(r.text("group")), STEP)?;
        match groups.groups() {
            [group] => results(json!({ "state": group.state(), "members": group.members().len() })),
            others => Err(Failure::Failed(format!("{} groups were described, not 1", others.len()))),
        }
    }

    pub fn lag(&self, r: &Request) -> Outcome {
        let topic = r.text("topic");
        let consumer = self.consumer(r.text("group"))?;
        let mut asked = TopicPartitionList::new();
        for partition in self.partitions(topic)? {
            asked.add_partition(topic, partition);
        }
        let mut lag = BTreeMap::new();
        for committed in consumer.committed_offsets(asked, STEP)?.elements() {
            committed.error()?;
            if let Offset::Offset(offset) = committed.offset() {
                let (_, end) = consumer.fetch_watermarks(topic, committed.partition(), STEP)?;
                lag.insert(committed.partition(), end - offset);
            }
        }
        results(json!({ "lag": lag }))
    }

    pub fn delete_topic(&self, r: &Request) -> Outcome {
        first(block_on(self.admin.delete_topics(&[r.text("topic")], &options()))?)?;
        results(json!({}))
    }

    pub fn delete_group(&self, r: &Request) -> Outcome {
        first(block_on(self.admin.delete_groups(&[r.text("group")], &options()))?)?;
        results(json!({}))
    }
}

fn send(producer: &BaseProducer<Deliveries>, topic: &str, r: &Record) -> Result<(), KafkaError> {
    let mut record: BaseRecord<'_, [u8], [u8]> = BaseRecord::to(topic);
    record.key = r.key.as_deref();
    record.payload = r.value.as_deref();
    if r.partition >= 0 {
        record = record.partition(r.partition);
    }
    if r.timestamp >= 0 {
        record = record.timestamp(r.timestamp);
    }
    if !r.headers.is_empty() {
        let mut headers = OwnedHeaders::new_with_capacity(r.headers.len());
        for (key, value) in &r.headers {
            headers = headers.insert(Header { key, value: value.as_ref() });
        }
        record = record.headers(headers);
    }
    loop {
        match producer.send(record) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                record = back;
                producer.poll(Duration::from_millis(50));
            }
            Err((error, _)) => return Err(error),
        }
    }
}
