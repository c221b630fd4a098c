"""The agent of aiokafka: carries out the steps that the driver sends and reports what the client said. It decides nothing
and checks nothing. The protocol is compat-tests/PROTOCOL.md.

The client is made of coroutines. Each thread of the agent (one for each member of a group, one for all other steps) has an
event loop of its own, which runs while the thread waits for the client; a member's thread nearly always does.
"""

import asyncio
import logging
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka import errors
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from pyagent import protocol, recordfile
from pyagent.member import Member
from pyagent.protocol import Unsupported

STEP_SECONDS = 60
RECORDS_A_POLL = 500
STRATEGIES = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor, "sticky": StickyPartitionAssignor}


def consumed(polled):
    """The tuples of recordfile for what getmany returned."""
    return [
        (r.partition, r.offset, r.timestamp, r.key, r.value, r.headers) for records in polled.values() for r in records
    ]


def raise_for(code, what):
    error = errors.for_code(code)
    if error is not errors.NoError:
        raise error(what)


class Listener(ConsumerRebalanceListener):
    """Called on the member's event loop."""

    def __init__(self, member):
        self._member = member

    async def on_partitions_revoked(self, revoked):
        offsets = self._member.take([p.partition for p in revoked])
        if offsets:
            await self._member.commit_async(offsets)

    async def on_partitions_assigned(self, assigned):
        pass


class GroupMember(Member):
    kept_max = 2000

    def __init__(self, bootstrap, request, answers):
        self._bootstrap = bootstrap
        self._arrived = []  # by the poll in progress
        super().__init__(request, answers)

    def open(self, request):
        if request.get("protocol", "classic") != "classic":
            raise Unsupported("the client has no group protocol but the classic one")
        strategy = request.get("strategy", "range")
        if strategy not in STRATEGIES:
            raise Unsupported("the client has no assignor %s" % strategy)
        self._loop = asyncio.new_event_loop()
        self._wait(self._open(request, STRATEGIES[strategy]))

    async def _open(self, request, assignor):
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap,
            group_id=request["group"],
            group_instance_id=request.get("instance"),
            partition_assignment_strategy=[assignor],
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_uncommitted",
            session_timeout_ms=10000,
            heartbeat_interval_ms=300,
        )
        self._consumer.subscribe([request["topic"]], listener=Listener(self))
        await self._consumer.start()

    def _wait(self, coroutine):
        return self._loop.run_until_complete(coroutine)

    def lost(self, partitions):
        super().lost(partitions)
        gone = set(partitions)
        self._arrived = [record for record in self._arrived if record[0] not in gone]

    def poll(self, seconds):
        self._wait(self._poll(seconds))
        records, self._arrived = self._arrived, []
        return records

    async def _poll(self, seconds):
        # A rebalance may come between the end of this and of poll; so what came is kept where lost can get at it.
        self._arrived = consumed(await self._consumer.getmany(timeout_ms=int(seconds * 1000), max_records=RECORDS_A_POLL))

    def pause_all(self):
        self._wait(self._pause())

    async def _pause(self):
        self._consumer.pause(*self._consumer.assignment())

    def resume_all(self):
        if self._consumer.paused():
            self._wait(self._resume())

    async def _resume(self):
        self._consumer.resume(*self._consumer.paused())

    def assignment(self):
        return [p.partition for p in self._consumer.assignment()]

    def commit(self, offsets):
        self._wait(self.commit_async(offsets))

    async def commit_async(self, offsets):
        await self._consumer.commit({TopicPartition(self.topic, p): offset for p, offset in offsets.items()})

    def in_rebalance(self, error):
        return isinstance(error, (errors.CommitFailedError, errors.RebalanceInProgressError))

    def close(self):
        self._wait(self._consumer.stop())
        self._loop.close()


class BrokerSteps:
    """The steps that need no group member; each is a coroutine that runs to its end."""

    def __init__(self, bootstrap):
        self._bootstrap = bootstrap
        self._client = None
        self._loop = asyncio.new_event_loop()

    def steps(self):
        steps = {
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
        return {name: self._run(step) for name, step in steps.items()}

    def _run(self, step):
        return lambda request: self._loop.run_until_complete(step(request))

    async def _admin(self):
        if self._client is None:
            client = AIOKafkaAdminClient(bootstrap_servers=self._bootstrap, request_timeout_ms=STEP_SECONDS * 1000)
            await client.start()
            self._client = client
        return self._client

    def _consumer(self):
        """A consumer without a group."""
        return AIOKafkaConsumer(bootstrap_servers=self._bootstrap, enable_auto_commit=False, auto_offset_reset="none")

    async def create_topic(self, request):
        topic = NewTopic(request["topic"], request["partitions"], 1, topic_configs=request.get("configs", {}))
        response = await (await self._admin()).create_topics([topic], timeout_ms=STEP_SECONDS * 1000)
        for name, code, *rest in response.topic_errors:
            raise_for(code, "%s %s" % (name, rest))

    async def produce(self, request):
        acks = request.get("acks", "all")
        producer = AIOKafkaProducer(
            bootstrap_servers=self._bootstrap,
            compression_type=None if request["codec"] == "none" else request["codec"],
            enable_idempotence=request.get("idempotent", False),
            acks=acks if acks == "all" else int(acks),
            linger_ms=10,
            max_batch_size=128 * 1024,
            # A record may be larger than the broker's limit for a batch as long as it compresses well.
            max_request_size=4 * 1024 * 1024,
            request_timeout_ms=request.get("timeout_ms", STEP_SECONDS * 1000),
        )
        topic, send = request["topic"], producer.send
        failures = []
        offsets = {}
        count = 0

        def acknowledged(future):
            nonlocal count
            if future.exception() is not None:
                failures.append(future.exception())
                return
            count += 1
            metadata = future.result()
            if metadata is not None:  # acks=0
                # Acknowledgements of a partition come in the order of its offsets.
                offsets[metadata.partition] = metadata.offset

        sent = 0
        await producer.start()
        try:
            for partition, timestamp, key, value, headers in recordfile.read(request["file"]):
                future = await send(
                    topic,
                    value,
                    key,
                    partition if partition >= 0 else None,
                    timestamp if timestamp >= 0 else None,
                    headers,
                )
                future.add_done_callback(acknowledged)
                sent += 1
                if failures:
                    break
            await producer.flush()
        finally:
            await producer.stop()
        await asyncio.sleep(0)  # the callbacks of the last acknowledgements
        if failures:
            raise failures[0]
        if count != sent:
            raise TimeoutError("%d of %d records are not acknowledged" % (sent - count, sent))
        results = {"count": count}
        if offsets and acks != "0":
            results["offsets"] = {str(partition): offset for partition, offset in sorted(offsets.items())}
        return results

    async def seek_time(self, request):
        topic, wanted = request["topic"], request.get("count", 0)
        deadline = time.monotonic() + request.get("timeout_ms", STEP_SECONDS * 1000) / 1000
        partitions = await self._partitions(topic)
        consumer = self._consumer()
        await consumer.start()
        try:
            times = {TopicPartition(topic, p["partition"]): request.get("timestamp", 0) for p in partitions}
            consumer.assign(list(times))
            found = await consumer.offsets_for_times(times)
            starts = {p: start.offset for p, start in found.items() if start is not None and start.offset >= 0}
            consumer.assign(list(starts))
            for partition, offset in starts.items():
                consumer.seek(partition, offset)
            written = 0
            with recordfile.Writer(request["out"]) as out:
                while starts and written < wanted and time.monotonic() < deadline:
                    records = consumed(await consumer.getmany(timeout_ms=200, max_records=wanted - written))
                    for record in records:
                        out.write(record)
                    written += len(records)
        finally:
            await consumer.stop()
        return {"offsets": {str(p.partition): starts.get(p, -1) for p in sorted(times)}}

    async def _partitions(self, name):
        (topic,) = await (await self._admin()).describe_topics([name])
        raise_for(topic["error_code"], name)
        for p in topic["partitions"]:
            raise_for(p["error_code"], "partition %d" % p["partition"])
        return sorted(topic["partitions"], key=lambda p: p["partition"])

    async def describe_topic(self, request):
        partitions = await self._partitions(request["topic"])
        return {
            "partitions": [
                {"id": p["partition"], "leader": p["leader"], "replicas": p["replicas"], "isr": p["isr"]} for p in partitions
            ]
        }

    async def describe_configs(self, request):
        resource = ConfigResource(ConfigResourceType.TOPIC, request["topic"])
        configs = {}
        for answer in await (await self._admin()).describe_configs([resource]):
            for code, message, _, _, entries in answer.resources:
                raise_for(code, message)
                for entry in entries:
                    configs[entry[0]] = entry[1]
        return {"configs": configs}

    async def describe_group(self, request):
        (answer,) = await (await self._admin()).describe_consumer_groups([request["group"]])
        ((code, _, state, _, _, members, *_),) = answer.groups
        raise_for(code, request["group"])
        return {"state": state, "members": len(members)}

    async def lag(self, request):
        committed = {
            partition: offset.offset
            for partition, offset in (await (await self._admin()).list_consumer_group_offsets(request["group"])).items()
            if partition.topic == request["topic"] and offset.offset >= 0
        }
        if not committed:
            return {"lag": {}}
        consumer = self._consumer()
        await consumer.start()
        try:
            ends = await consumer.end_offsets(list(committed))
        finally:
            await consumer.stop()
        return {"lag": {str(p.partition): end - committed[p] for p, end in ends.items()}}

    async def delete_topic(self, request):
        response = await (await self._admin()).delete_topics([request["topic"]], timeout_ms=STEP_SECONDS * 1000)
        for name, code in response.topic_error_codes:
            raise_for(code, name)

    async def delete_group(self, request):
        raise Unsupported("the client has no call to delete groups")


def main():
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    bootstrap = protocol.arguments().bootstrap
    hello = {
        "client": "aiokafka",
        "version": aiokafka.__version__,
        "cannot": ["null-value"],
        "note": "the client refuses a record with neither key nor value; null values are left out",
    }
    protocol.serve(
        hello,
        BrokerSteps(bootstrap).steps(),
        lambda request, answers: GroupMember(bootstrap, request, answers),
    )


if __name__ == "__main__":
    main()
