"""What the Python agents of the compatibility suite share: record files, the protocol on standard input and output, and the
thread of one group member. It imports no Kafka client: each agent brings its own calls.
"""
