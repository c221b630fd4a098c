package millrace.compat;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.springframework.kafka.core.ConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaAdmin;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.listener.ContainerProperties;
import org.springframework.kafka.listener.KafkaMessageListenerContainer;
import org.springframework.kafka.listener.MessageListener;
import org.springframework.kafka.support.TopicPartitionOffset;

/** Spring Kafka: KafkaAdmin, KafkaTemplate, listener containers, and the consumers that its factory hands out. */
final class SpringLibrary implements Library {
    private final String bootstrap;
    private final KafkaAdmin admin;

    SpringLibrary(String bootstrap) {
        this.bootstrap = bootstrap;
        Map<String, Object> config = new HashMap<>();
        config.put(AdminClientConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        admin = new KafkaAdmin(config);
    }

    @Override
    public Hello hello() {
        return new Hello("Spring Kafka", Agent.jarVersion(KafkaTemplate.class), null, null, null, "kafka-clients " + Agent.kafkaVersion());
    }

    @Override
    public void createTopic(String topic, int partitions, Map<String, String> configs) {
        admin.createOrModifyTopics(new NewTopic(topic, partitions, (short) 1).configs(configs));
    }

    @Override
    public Produced produce(Produce order) throws Exception {
        DefaultKafkaProducerFactory<byte[], byte[]> factory = new DefaultKafkaProducerFactory<>(Settings.producer(bootstrap, order));
        Acknowledged acknowledged = new Acknowledged();
        try (RecordFile.Reader file = new RecordFile.Reader(order.file(), order.topic())) {
            KafkaTemplate<byte[], byte[]> template = new KafkaTemplate<>(factory);
            ProducerRecord<byte[], byte[]> record;
            while (!acknowledged.failed() && (record = file.next()) != null) {
                template.send(record).whenComplete((sent, failure) -> {
                    if (failure != null) {
                        acknowledged.failed(failure);
                    } else {
                        acknowledged.onCompletion(sent.getRecordMetadata(), null);
                    }
                });
            }
            template.flush();
        } finally {
            factory.destroy();
        }
        return acknowledged.result();
    }

    @Override
    public GroupMember open(Membership membership) throws Exception {
        return new SpringMember(Settings.member(bootstrap, membership), membership.topic());
    }

    @Override
    public Map<Integer, Long> seekTime(Seek seek) throws Exception {
        ConsumerFactory<byte[], byte[]> factory = new DefaultKafkaConsumerFactory<>(Settings.consumer(bootstrap));
        Map<Integer, Long> offsets = new TreeMap<>();
        try (Consumer<byte[], byte[]> consumer = factory.createConsumer()) {
            Map<TopicPartition, Long> times = consumer.partitionsFor(seek.topic()).stream()
                    .collect(Collectors.toMap(info -> new TopicPartition(seek.topic(), info.partition()), info -> seek.timestamp()));
            consumer.offsetsForTimes(times).forEach((partition, found) -> offsets.put(partition.partition(), found == null ? -1 : found.offset()));
        }
        TopicPartitionOffset[] starts = offsets.entrySet().stream().filter(e -> e.getValue() >= 0)
                .map(e -> new TopicPartitionOffset(seek.topic(), e.getKey(), e.getValue())).toArray(TopicPartitionOffset[]::new);
        if (starts.length == 0) {
            return offsets;
        }
        Inbox inbox = new Inbox();
        ContainerProperties properties = new ContainerProperties(starts);
        properties.setAckMode(ContainerProperties.AckMode.MANUAL);
        properties.setMessageListener((MessageListener<byte[], byte[]>) inbox::push);
        KafkaMessageListenerContainer<byte[], byte[]> container = new KafkaMessageListenerContainer<>(factory, properties);
        inbox.collect(seek.out(), seek.count(), seek.timeoutMs(), container::start, container::stop);
        return offsets;
    }

    @Override
    public List<PartitionState> describeTopic(String topic) {
        TopicDescription description = admin.describeTopics(topic).get(topic);
        return description.partitions().stream()
                .map(info -> new PartitionState(info.partition(), info.leader() == null ? -1 : info.leader().id(), ids(info.replicas()),
                        ids(info.isr())))
                .toList();
    }

    private static List<Integer> ids(List<Node> nodes) {
        return nodes.stream().map(Node::id).toList();
    }

    /** A consumer of the factory, with the group's id and no subscription. */
    @Override
    public Map<Integer, Long> lag(String group, String topic) {
        Map<String, Object> config = Settings.consumer(bootstrap);
        config.put(ConsumerConfig.GROUP_ID_CONFIG, group);
        Map<Integer, Long> lag = new TreeMap<>();
        try (Consumer<byte[], byte[]> consumer = new DefaultKafkaConsumerFactory<byte[], byte[]>(config).createConsumer()) {
            Set<TopicPartition> partitions = consumer.partitionsFor(topic).stream().map(info -> new TopicPartition(topic, info.partition()))
                    .collect(Collectors.toSet());
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            for (Map.Entry<TopicPartition, OffsetAndMetadata> committed : consumer.committed(partitions).entrySet()) {
                if (committed.getValue() != null) {
                    lag.put(committed.getKey().partition(), ends.get(committed.getKey()) - committed.getValue().offset());
                }
            }
        }
        return lag;
    }

    @Override
    public void deleteTopic(String topic) {
        admin.deleteTopics(topic);
    }

    @Override
    public void close() {
    }
}
