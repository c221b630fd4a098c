"""The agent of confluent-kafka (librdkafka) for Python: carries out the steps that the driver sends and reports what the
client said. It decides nothing and checks nothing. The protocol is compat-tests/PROTOCOL.md.
"""

import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import confluent_kafka
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec

from pyagent import protocol, recordfile
from pyagent.member import Member
from pyagent.protocol import Unsupported

STEP_SECONDS = 60
RECORDS_A_POLL = 500
STRATEGIES = ("range", "roundrobin", "cooperative-sticky")


def consumed(messages):
    """The tuples of recordfile for a list of messages; an error among them is raised."""
    records = []
    for message in messages:
        error = message.error()
        if error is not None:
            raise KafkaException(error)
        kind, timestamp = message.timestamp()
        if kind == TIMESTAMP_NOT_AVAILABLE:
            timestamp = -1
        records.append(
            (message.partition(), message.offset(), timestamp, message.key(), message.value(), message.headers() or ())
        )
    return records


class GroupMember(Member):
    # A partition that is paused while the client still looks for its start may be read from its start twice.
    kept_max = 5000

    def __init__(self, bootstrap, request, answers):
        self._bootstrap = bootstrap
        super().__init__(request, answers)

    def open(self, request):
        config = {
            "bootstrap.servers": self._bootstrap,
            "group.id": request["group"],
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_uncommitted",
        }
        if "instance" in request:
            config["group.instance.id"] = request["instance"]
        if request.get("protocol", "classic") == "consumer":
            # KIP-848: the broker assigns, by an assignor of its own that the member may name.
            config["group.protocol"] = "consumer"
            if "strategy" in request:
                config["group.remote.assignor"] = request["strategy"]
        else:
            strategy = request.get("strategy", "range")
            if strategy not in STRATEGIES:
                raise Unsupported("the client has no assignor %s" % strategy)
            config["partition.assignment.strategy"] = strategy
            config["session.timeout.ms"] = 10000
            config["heartbeat.interval.ms"] = 500
        self._consumer = Consumer(config)
        self._consumer.subscribe(
            [request["topic"]],
            on_revoke=lambda _, partitions: self.revoked([p.partition for p in partitions]),
            on_lost=lambda _, partitions: self.lost([p.partition for p in partitions]),
        )

    def poll(self, seconds):
        return consumed(self._consumer.consume(RECORDS_A_POLL, seconds))

    def pause_all(self):
        self._consumer.pause(self._consumer.assignment())

    def resume_all(self):
        self._consumer.resume(self._consumer.assignment())

    def assignment(self):
        return [p.partition for p in self._consumer.assignment()]

    def commit(self, offsets):
        commit = [TopicPartition(self.topic, partition, offset) for partition, offset in offsets.items()]
        for partition in self._consumer.commit(offsets=commit, asynchronous=False):
            if partition.error is not None:
                raise KafkaException(partition.error)

    def in_rebalance(self, error):
        codes = (KafkaError.REBALANCE_IN_PROGRESS, KafkaError.STALE_MEMBER_EPOCH)
        return isinstance(error, KafkaException) and error.args[0].code() in codes

    def close(self):
        self._consumer.close()


class BrokerSteps:
    """The steps that need no group member."""

    def __init__(self, bootstrap):
        self._bootstrap = bootstrap
        self._client = None

    def steps(self):
        return {
            "create-topic": self.create_topic,
            "produce": self.produce,
            "seek-time": self.seek_time,
            "describe-topic": self.describe_topic,
            "describe-configs": self.describe_configs,
            "describe-group": self.describe_group,
            "lag": self.lag,
            "delete-topic": self.delete_topic,
            "delete-group": self.delete_group,
        }

    def _admin(self):
        if self._client is None:
            self._client = AdminClient({"bootstrap.servers": self._bootstrap})
        return self._client

    def create_topic(self, request):
        topic = NewTopic(request["topic"], request["partitions"], 1, config=request.get("configs", {}))
        self._admin().create_topics([topic], operation_timeout=STEP_SECONDS)[request["topic"]].result(STEP_SECONDS)

    def produce(self, request):
        idempotent = request.get("idempotent", False)
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "compression.type": request["codec"],
                "enable.idempotence": idempotent,
                "acks": request.get("acks", "all"),
                # Without sequence numbers a retry could overtake a later request.
                "max.in.flight.requests.per.connection": 5 if idempotent else 1,
                "linger.ms": 10,
                "batch.size": 256 * 1024,
                # A record may be larger than the broker's limit for a batch as long as it compresses well.
                "message.max.bytes": 4 * 1024 * 1024,
                "message.timeout.ms": request.get("timeout_ms", STEP_SECONDS * 1000),
            }
        )
        topic, send, poll = request["topic"], producer.produce, producer.poll
        failures = []
        offsets = {}
        count = 0

        def delivered(error, message):
            nonlocal count
            if error is not None:
                failures.append(error)
                return
            count += 1
            # Acknowledgements of a partition come in the order of its offsets.
            offsets[message.partition()] = message.offset()

        sent = 0
        for partition, timestamp, key, value, headers in recordfile.read(request["file"]):
            optional = {"headers": headers} if headers else {}
            if timestamp >= 0:
                optional["timestamp"] = timestamp
            while True:
                try:
                    send(topic, value, key, partition, on_delivery=delivered, **optional)
                    break
                except BufferError:
                    poll(0.1)
            sent += 1
            if sent % 1000 == 0:
                poll(0)
                if failures:
                    break
        unsent = producer.flush(STEP_SECONDS)
        if failures:
            raise KafkaException(failures[0])
        if unsent:
            raise TimeoutError("%d of %d records are not acknowledged" % (unsent, sent))
        results = {"count": count}
        # Without acknowledgements (acks=0) the client knows no offsets.
        known = {str(partition): offset for partition, offset in sorted(offsets.items()) if offset is not None}
        if known:
            results["offsets"] = known
        return results

    def seek_time(self, request):
        topic, wanted = request["topic"], request.get("count", 0)
        deadline = time.monotonic() + request.get("timeout_ms", STEP_SECONDS * 1000) / 1000
        # The client wants a group name even where partitions are assigned by hand; nobody joins it.
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "no-group",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
            }
        )
        try:
            partitions = consumer.list_topics(topic, timeout=STEP_SECONDS).topics[topic].partitions
            asked = [TopicPartition(topic, p, request.get("timestamp", 0)) for p in sorted(partitions)]
            starts = []
            offsets = {}
            for start in consumer.offsets_for_times(asked, timeout=STEP_SECONDS):
                if start.error is not None:
                    raise KafkaException(start.error)
                offsets[str(start.partition)] = start.offset if start.offset >= 0 else -1
                if start.offset >= 0:
                    starts.append(start)
            consumer.assign(starts)
            written = 0
            with recordfile.Writer(request["out"]) as out:
                while starts and written < wanted and time.monotonic() < deadline:
                    records = consumed(consumer.consume(min(RECORDS_A_POLL, wanted - written), 0.2))
                    for record in records:
                        out.write(record)
                    written += len(records)
        finally:
            consumer.close()
        return {"offsets": offsets}

    def describe_topic(self, request):
        topic = request["topic"]
        description = self._admin().describe_topics(TopicCollection([topic]))[topic].result(STEP_SECONDS)
        partitions = [
            {
                "id": p.id,
                "leader": p.leader.id if p.leader is not None else -1,
                "replicas": [node.id for node in p.replicas],
                "isr": [node.id for node in p.isr],
            }
            for p in description.partitions
        ]
        return {"partitions": sorted(partitions, key=lambda p: p["id"])}

    def describe_configs(self, request):
        resource = ConfigResource(ConfigResource.Type.TOPIC, request["topic"])
        entries = self._admin().describe_configs([resource])[resource].result(STEP_SECONDS)
        return {"configs": {name: entry.value for name, entry in entries.items()}}

    def describe_group(self, request):
        group = request["group"]
        description = self._admin().describe_consumer_groups([group])[group].result(STEP_SECONDS)
        # The client's names are Kafka's words in capitals with underscores.
        state = "".join(word.capitalize() for word in description.state.name.split("_"))
        return {"state": state, "members": len(description.members)}

    def lag(self, request):
        group = request["group"]
        asked = ConsumerGroupTopicPartitions(group)
        committed = {}
        for partition in self._admin().list_consumer_group_offsets([asked])[group].result(STEP_SECONDS).topic_partitions:
            if partition.error is not None:
                raise KafkaException(partition.error)
            if partition.topic == request["topic"] and partition.offset >= 0:
                committed[partition.partition] = partition.offset
        lag = {}
        if committed:
            ends = self._admin().list_offsets(
                {TopicPartition(request["topic"], partition): OffsetSpec.latest() for partition in committed}
            )
            for partition, end in ends.items():
                lag[str(partition.partition)] = end.result(STEP_SECONDS).offset - committed[partition.partition]
        return {"lag": lag}

    def delete_topic(self, request):
        topic = request["topic"]
        self._admin().delete_topics([topic], operation_timeout=STEP_SECONDS)[topic].result(STEP_SECONDS)

    def delete_group(self, request):
        group = request["group"]
        self._admin().delete_consumer_groups([group])[group].result(STEP_SECONDS)


def main():
    bootstrap = protocol.arguments().bootstrap
    hello = {
        "client": "confluent-kafka",
        "version": confluent_kafka.__version__,
        "cannot": [],
        "note": "librdkafka " + confluent_kafka.libversion()[0],
    }
    protocol.serve(
        hello,
        BrokerSteps(bootstrap).steps(),
        lambda request, answers: GroupMember(bootstrap, request, answers),
    )


if __name__ == "__main__":
    main()
