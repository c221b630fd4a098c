package millrace.compat;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Apache Kafka's own client of 0.9 and 0.10: its consumer is that of today, and there is no AdminClient. */
final class OldClients implements Library {
    private final String bootstrap;

    OldClients(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    @Override
    public Hello hello() {
        return new Hello("Java kafka-clients", Agent.kafkaVersion(), Calls.CANNOT, List.of("none", "gzip", "snappy", "lz4"), null, null);
    }

    @Override
    public Produced produce(Produce order) throws Exception {
        return OldProducer.produce(bootstrap, order);
    }

    Map<String, Object> config() {
        Map<String, Object> config = new HashMap<>();
        config.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        config.put(ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class.getName());
        config.put(ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class.getName());
        config.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, "false");
        config.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "none");
        // There is no fetch beyond the limit before 0.10.1: the largest record has to fit.
        config.put(ConsumerConfig.MAX_PARTITION_FETCH_BYTES_CONFIG, 5 * 1024 * 1024);
        return config;
    }

    @Override
    public GroupMember open(Membership membership) throws Exception {
        if (membership.nextGeneration() || membership.instance() != null) {
            throw new Answers.Unsupported("the client knows classic groups without static members only");
        }
        Map<String, Object> config = config();
        config.put(ConsumerConfig.GROUP_ID_CONFIG, membership.group());
        config.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        String strategy = membership.strategy() == null ? "range" : membership.strategy();
        config.put(ConsumerConfig.PARTITION_ASSIGNMENT_STRATEGY_CONFIG, switch (strategy) {
            case "range" -> "org.apache.kafka.clients.consumer.RangeAssignor";
            case "roundrobin" -> "org.apache.kafka.clients.consumer.RoundRobinAssignor";
            default -> throw new Answers.Unsupported("the client has no assignor " + strategy);
        });
        config.put(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG, 10_000);
        config.put(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG, 300);
        return new KafkaMember(config, membership.topic());
    }

    @Override
    public Map<Integer, Long> seekTime(Seek seek) throws Exception {
        try (Consumer<byte[], byte[]> consumer = new KafkaConsumer<>(config())) {
            return Calls.seekTime(consumer, seek);
        }
    }

    @Override
    public List<PartitionState> describeTopic(String topic) throws Exception {
        try (Consumer<byte[], byte[]> consumer = new KafkaConsumer<>(config())) {
            return consumer.partitionsFor(topic).stream()
                    .map(info -> new PartitionState(info.partition(), info.leader() == null ? -1 : info.leader().id(), ids(info.replicas()),
                            ids(info.inSyncReplicas())))
                    .collect(Collectors.toList());
        }
    }

    private static List<Integer> ids(Node[] nodes) {
        return Stream.of(nodes).map(Node::id).collect(Collectors.toList());
    }

    /** A consumer with the group's id and no subscription reads committed offsets and log ends. */
    @Override
    public Map<Integer, Long> lag(String group, String topic) throws Exception {
        Map<String, Object> config = config();
        config.put(ConsumerConfig.GROUP_ID_CONFIG, group);
        Map<Integer, Long> lag = new TreeMap<>();
        try (Consumer<byte[], byte[]> consumer = new KafkaConsumer<>(config)) {
            for (PartitionInfo info : consumer.partitionsFor(topic)) {
                TopicPartition partition = new TopicPartition(topic, info.partition());
                OffsetAndMetadata committed = consumer.committed(partition);
                if (committed != null) {
                    consumer.assign(List.of(partition));
                    Calls.seekToEnd(consumer, partition);
                    lag.put(info.partition(), consumer.position(partition) - committed.offset());
                }
            }
        }
        return lag;
    }

    @Override
    public void close() {
    }
}
