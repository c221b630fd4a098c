"""The agent of kafka-python before version 3 (2.0.2 and 1.4.7): carries out the steps that the driver sends and reports
what the client said. It decides nothing and checks nothing. The protocol is compat-tests/PROTOCOL.md.
"""

import logging
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import kafka
from kafka import ConsumerRebalanceListener, KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka import errors
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from pyagent import protocol, recordfile
from pyagent.member import Member
from pyagent.protocol import Unsupported

STEP_SECONDS = 60
# 2.0.2 has a sticky assignor too, which raises a TypeError of its own as soon as a second member joins: it takes the
# length of an iterator.
STRATEGIES = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}
CODECS = ["none", "gzip", "snappy", "lz4"] + (["zstd"] if hasattr(kafka.codec, "has_zstd") else [])


def consumed(polled):
    """The tuples of recordfile for what poll returned."""
    return [
        (r.partition, r.offset, r.timestamp, r.key, r.value, r.headers) for records in polled.values() for r in records
    ]


def raise_for(code, what):
    error = errors.for_code(code)
    if error is not errors.NoError:
        raise error(what)


class Listener(ConsumerRebalanceListener):
    """Called within poll."""

    def __init__(self, member):
        self._member = member

    def on_partitions_revoked(self, revoked):
        self._member.revoked([p.partition for p in revoked])

    def on_partitions_assigned(self, assigned):
        # The client may find a new partition's start twice; what it has handed over in between comes again. So nothing is
        # read of a partition before a consume asks for it.
        self._member.assigned(assigned)


class GroupMember(Member):
    def __init__(self, bootstrap, request, answers):
        self._bootstrap = bootstrap
        super().__init__(request, answers)

    def open(self, request):
        if request.get("protocol", "classic") != "classic":
            raise Unsupported("the client has no group protocol but the classic one")
        if "instance" in request:
            raise Unsupported("the client has no static members")
        strategy = request.get("strategy", "range")
        if strategy not in STRATEGIES:
            raise Unsupported("the client has no assignor %s" % strategy)
        self._consumer = KafkaConsumer(
            bootstrap_servers=self._bootstrap,
            group_id=request["group"],
            partition_assignment_strategy=[STRATEGIES[strategy]],
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=10000,
            heartbeat_interval_ms=300,
        )
        # Without this the leader of a group may assign nothing for want of metadata, and never look again.
        self._consumer.partitions_for_topic(request["topic"])
        self._consumer.subscribe([request["topic"]], listener=Listener(self))

    def assigned(self, partitions):
        if not self.reading:
            self._consumer.pause(*partitions)

    def poll(self, seconds):
        return consumed(self._consumer.poll(timeout_ms=int(seconds * 1000)))

    def pause_all(self):
        self._consumer.pause(*self._consumer.assignment())

    def resume_all(self):
        self._consumer.resume(*self._consumer.paused())

    def assignment(self):
        return [p.partition for p in self._consumer.assignment()]

    def commit(self, offsets):
        self._consumer.commit({TopicPartition(self.topic, p): OffsetAndMetadata(offset, "") for p, offset in offsets.items()})

    def in_rebalance(self, error):
        return isinstance(error, (errors.CommitFailedError, errors.RebalanceInProgressError))

    def close(self):
        self._consumer.close(autocommit=False)


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
            self._client = KafkaAdminClient(bootstrap_servers=self._bootstrap, request_timeout_ms=STEP_SECONDS * 1000)
        return self._client

    def _consumer(self):
        """A consumer without a group."""
        return KafkaConsumer(
            bootstrap_servers=self._bootstrap, group_id=None, enable_auto_commit=False, auto_offset_reset="none"
        )

    def create_topic(self, request):
        topic = NewTopic(request["topic"], request["partitions"], 1, topic_configs=request.get("configs", {}))
        self._admin().create_topics([topic], timeout_ms=STEP_SECONDS * 1000)

    def produce(self, request):
        if request.get("idempotent", False):
            raise Unsupported("the client has no idempotent producer")
        acks = request.get("acks", "all")
        producer = KafkaProducer(
            bootstrap_servers=self._bootstrap,
            compression_type=None if request["codec"] == "none" else request["codec"],
            acks=acks if acks == "all" else int(acks),
            # A retry could overtake a later request.
            max_in_flight_requests_per_connection=1,
            linger_ms=10,
            batch_size=128 * 1024,
            # A record may be larger than the broker's limit for a batch as long as it compresses well.
            max_request_size=4 * 1024 * 1024,
            max_block_ms=STEP_SECONDS * 1000,
        )
        topic, send = request["topic"], producer.send
        failures = []
        offsets = {}
        count = 0

        def acknowledged(metadata):
            nonlocal count
            count += 1
            # Acknowledgements of a partition come in the order of its offsets.
            offsets[metadata.partition] = metadata.offset

        sent = 0
        try:
            for partition, timestamp, key, value, headers in recordfile.read(request["file"]):
                future = send(
                    topic,
                    value,
                    key,
                    headers,
                    partition if partition >= 0 else None,
                    timestamp if timestamp >= 0 else None,
                )
                future.add_callback(acknowledged)
                future.add_errback(failures.append)
                sent += 1
                if failures:
                    break
            producer.flush(STEP_SECONDS)
        finally:
            producer.close(STEP_SECONDS)
        if failures:
            raise failures[0]
        if count != sent:
            raise TimeoutError("%d of %d records are not acknowledged" % (sent - count, sent))
        results = {"count": count}
        # Without acknowledgements (acks=0) the client makes offsets up.
        if acks != "0":
            results["offsets"] = {str(partition): offset for partition, offset in sorted(offsets.items())}
        return results

    def seek_time(self, request):
        topic, wanted = request["topic"], request.get("count", 0)
        deadline = time.monotonic() + request.get("timeout_ms", STEP_SECONDS * 1000) / 1000
        consumer = self._consumer()
        try:
            times = {TopicPartition(topic, p): request.get("timestamp", 0) for p in consumer.partitions_for_topic(topic) or ()}
            found = consumer.offsets_for_times(times)
            starts = {p: start.offset for p, start in found.items() if start is not None and start.offset >= 0}
            consumer.assign(list(starts))
            for partition, offset in starts.items():
                consumer.seek(partition, offset)
            written = 0
            with recordfile.Writer(request["out"]) as out:
                while starts and written < wanted and time.monotonic() < deadline:
                    records = consumed(consumer.poll(timeout_ms=200))
                    for record in records:
                        out.write(record)
                    written += len(records)
        finally:
            consumer.close()
        return {"offsets": {str(p.partition): starts.get(p, -1) for p in sorted(times)}}

    def describe_topic(self, request):
        if not hasattr(KafkaAdminClient, "describe_topics"):
            raise Unsupported("the client has no call to describe topics")
        (topic,) = self._admin().describe_topics([request["topic"]])
        raise_for(topic["error_code"], request["topic"])
        partitions = []
        for p in sorted(topic["partitions"], key=lambda p: p["partition"]):
            raise_for(p["error_code"], "partition %d" % p["partition"])
            partitions.append({"id": p["partition"], "leader": p["leader"], "replicas": p["replicas"], "isr": p["isr"]})
        return {"partitions": partitions}

    def describe_configs(self, request):
        answers = self._admin().describe_configs([ConfigResource(ConfigResourceType.TOPIC, request["topic"])])
        configs = {}
        for answer in answers if isinstance(answers, list) else [answers]:  # 1.4.7 gives the one answer
            for code, message, _, _, entries in answer.resources:
                raise_for(code, message)
                for entry in entries:
                    configs[entry[0]] = entry[1]
        return {"configs": configs}

    def describe_group(self, request):
        (group,) = self._admin().describe_consumer_groups([request["group"]])
        code, _, state, _, _, members = group[:6]  # 1.4.7 gives the answer's fields without names
        raise_for(code, request["group"])
        return {"state": state, "members": len(members)}

    def lag(self, request):
        committed = {
            partition: offset.offset
            for partition, offset in self._admin().list_consumer_group_offsets(request["group"]).items()
            if partition.topic == request["topic"] and offset.offset >= 0
        }
        if not committed:
            return {"lag": {}}
        consumer = self._consumer()
        try:
            ends = consumer.end_offsets(list(committed))
        finally:
            consumer.close()
        return {"lag": {str(p.partition): end - committed[p] for p, end in ends.items()}}

    def delete_topic(self, request):
        self._admin().delete_topics([request["topic"]], timeout_ms=STEP_SECONDS * 1000)

    def delete_group(self, request):
        if not hasattr(KafkaAdminClient, "delete_consumer_groups"):
            raise Unsupported("the client has no call to delete groups")
        ((_, error),) = self._admin().delete_consumer_groups([request["group"]])
        if error is not errors.NoError:
            raise error(request["group"])


def main():
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    bootstrap = protocol.arguments().bootstrap
    hello = {
        "client": "kafka-python",
        "version": kafka.__version__,
        "codecs": CODECS,
        # It refuses a header without value, and a record that has neither key nor value.
        "cannot": ["null-header-value", "null-value"],
        "note": "the client refuses a record with neither key nor value; null values are left out",
    }
    protocol.serve(
        hello,
        BrokerSteps(bootstrap).steps(),
        lambda request, answers: GroupMember(bootstrap, request, answers),
    )


if __name__ == "__main__":
    main()
