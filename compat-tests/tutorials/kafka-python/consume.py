"""Reads orders from Kafka as a member of a group and prints them, until none came for some seconds.

    python consume.py [SERVER [TOPIC [GROUP]]]

Started twice with the same group, the two share the topic's partitions.
"""

import json
import sys

from kafka import ConsumerRebalanceListener, KafkaConsumer

SERVER = sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"
TOPIC = sys.argv[2] if len(sys.argv) > 2 else "orders"
GROUP = sys.argv[3] if len(sys.argv) > 3 else "billing"


class Assignments(ConsumerRebalanceListener):
    def on_partitions_revoked(self, revoked):
        pass

    def on_partitions_assigned(self, assigned):
        print("assigned", *sorted(p.partition for p in assigned), file=sys.stderr, flush=True)


consumer = KafkaConsumer(
    bootstrap_servers=SERVER,
    group_id=GROUP,
    auto_offset_reset="earliest",
    enable_auto_commit=True,
    key_deserializer=bytes.decode,
    value_deserializer=lambda value: json.loads(value.decode("utf-8")),
    consumer_timeout_ms=10000,
)
consumer.subscribe([TOPIC], listener=Assignments())

for message in consumer:
    print(message.partition, message.offset, message.key, json.dumps(message.value), sep="\t")

consumer.close()
