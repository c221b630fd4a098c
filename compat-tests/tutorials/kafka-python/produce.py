"""Sends orders to Kafka, each acknowledged by all replicas and stored once, and prints what it sent.

    python produce.py [SERVER [TOPIC [COUNT]]]
"""

import json
import sys

from kafka import KafkaProducer

SERVER = sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"
TOPIC = sys.argv[2] if len(sys.argv) > 2 else "orders"
COUNT = int(sys.argv[3]) if len(sys.argv) > 3 else 5000

producer = KafkaProducer(
    bootstrap_servers=SERVER,
    key_serializer=str.encode,
    value_serializer=lambda value: json.dumps(value).encode("utf-8"),
    acks="all",
    retries=3,
    enable_idempotence=True,
    batch_size=16384,
    linger_ms=10,
    compression_type="lz4",
    max_in_flight_requests_per_connection=5,
)

sent = []
for i in range(COUNT):
    key = "customer-%d" % (i * i % 37)
    order = {"order": i, "item": "größe %d" % (i % 9), "price": i / 100}
    sent.append((key, order, producer.send(TOPIC, key=key, value=order)))

producer.flush()
for key, order, future in sent:
    metadata = future.get(timeout=10)
    print(metadata.partition, metadata.offset, key, json.dumps(order), sep="\t")

producer.close()
