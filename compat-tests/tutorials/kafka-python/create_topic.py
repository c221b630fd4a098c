"""Creates a topic.

    python create_topic.py SERVER TOPIC PARTITIONS
"""

import sys

from kafka.admin import KafkaAdminClient

server, topic, partitions = sys.argv[1], sys.argv[2], int(sys.argv[3])

admin = KafkaAdminClient(bootstrap_servers=server)
admin.create_topics({topic: {"num_partitions": partitions, "replication_factor": 1}})
admin.close()
