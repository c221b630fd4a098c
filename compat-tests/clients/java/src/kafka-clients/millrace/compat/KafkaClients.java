package millrace.compat;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/**
 * Apache Kafka's own client. One source for all versions: the calls that came, went or changed between them are in Calls,
 * of which each era has its own.
 */
final class KafkaClients implements Library {
    private final String bootstrap;
    private AdminClient admin;

    KafkaClients(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    @Override
    public Hello hello() {
        return new Hello("Java kafka-clients", Agent.kafkaVersion(), null, Calls.CODECS, null, null);
    }

    private AdminClient admin() {
        if (admin == null) {
            Map<String, Object> config = new HashMap<>();
            config.put(AdminClientConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
            admin = AdminClient.create(config);
        }
        return admin;
    }

    @Override
    public void createTopic(String topic, int partitions, Map<String, String> configs) throws Exception {
        admin().createTopics(List.of(new NewTopic(topic, partitions, (short) 1).configs(configs))).all().get();
    }

    @Override
    public Produced produce(Produce order) throws Exception {
        Map<String, Object> config = Settings.producer(bootstrap, order);
        if (order.idempotent()) {
            config.put(ProducerConfig.MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION, Calls.IDEMPOTENT_IN_FLIGHT);
        }
        Acknowledged acknowledged = new Acknowledged();
        try (RecordFile.Reader file = new RecordFile.Reader(order.file(), order.topic());
                KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config)) {
            ProducerRecord<byte[], byte[]> record;
            while (!acknowledged.failed() && (record = file.next()) != null) {
                producer.send(record, acknowledged);
            }
            producer.flush();
        }
        return acknowledged.result();
    }

    @Override
    public GroupMember open(Membership membership) throws Exception {
        return new KafkaMember(Settings.member(bootstrap, membership), membership.topic());
    }

    @Override
    public Map<Integer, Long> seekTime(Seek seek) throws Exception {
        long deadline = System.nanoTime() + seek.timeoutMs() * 1_000_000;
        Map<Integer, Long> offsets = new TreeMap<>();
        try (Consumer<byte[], byte[]> consumer = new KafkaConsumer<>(Settings.consumer(bootstrap));
                RecordFile.Writer out = new RecordFile.Writer(seek.out())) {
            Map<TopicPartition, Long> times = new HashMap<>();
            for (PartitionInfo info : consumer.partitionsFor(seek.topic())) {
                times.put(new TopicPartition(seek.topic(), info.partition()), seek.timestamp());
            }
            Map<TopicPartition, Long> starts = new HashMap<>();
            for (Map.Entry<TopicPartition, OffsetAndTimestamp> found : consumer.offsetsForTimes(times).entrySet()) {
                OffsetAndTimestamp start = found.getValue();
                offsets.put(found.getKey().partition(), start == null ? -1 : start.offset());
                if (start != null) {
                    starts.put(found.getKey(), start.offset());
                }
            }
            consumer.assign(starts.keySet());
            starts.forEach(consumer::seek);
            long written = 0;
            while (written < seek.count() && !starts.isEmpty() && System.nanoTime() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : Calls.poll(consumer, 200)) {
                    out.write(record);
                    written++;
                }
            }
        }
        return offsets;
    }

    @Override
    public List<PartitionState> describeTopic(String topic) throws Exception {
        TopicDescription description = Calls.describeTopic(admin(), topic);
        return description.partitions().stream()
                .map(info -> new PartitionState(info.partition(), info.leader() == null ? -1 : info.leader().id(), ids(info.replicas()),
                        ids(info.isr())))
                .collect(Collectors.toList());
    }

    private static List<Integer> ids(List<Node> nodes) {
        return nodes.stream().map(Node::id).collect(Collectors.toList());
    }

    @Override
    public Map<String, String> describeConfigs(String topic) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        Map<String, String> configs = new TreeMap<>();
        for (ConfigEntry entry : admin().describeConfigs(List.of(resource)).all().get().get(resource).entries()) {
            configs.put(entry.name(), entry.value());
        }
        return configs;
    }

    @Override
    public GroupState describeGroup(String group) throws Exception {
        return Calls.describeGroup(admin(), group);
    }

    @Override
    public Map<Integer, Long> lag(String group, String topic) throws Exception {
        return Calls.lag(admin(), bootstrap, group, topic);
    }

    @Override
    public void deleteTopic(String topic) throws Exception {
        admin().deleteTopics(List.of(topic)).all().get();
    }

    @Override
    public void deleteGroup(String group) throws Exception {
        Calls.deleteGroup(admin(), group);
    }

    @Override
    public void close() {
        if (admin != null) {
            Calls.close(admin);
        }
    }
}
