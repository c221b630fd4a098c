package millrace.compat;

import io.vertx.core.Future;
import io.vertx.core.Vertx;
import io.vertx.kafka.admin.Config;
import io.vertx.kafka.admin.ConsumerGroupDescription;
import io.vertx.kafka.admin.KafkaAdminClient;
import io.vertx.kafka.admin.NewTopic;
import io.vertx.kafka.admin.OffsetSpec;
import io.vertx.kafka.client.common.ConfigResource;
import io.vertx.kafka.client.common.Node;
import io.vertx.kafka.client.common.TopicPartition;
import io.vertx.kafka.client.consumer.KafkaConsumer;
import io.vertx.kafka.client.consumer.OffsetAndMetadata;
import io.vertx.kafka.client.consumer.OffsetAndTimestamp;
import io.vertx.kafka.client.producer.KafkaHeader;
import io.vertx.kafka.client.producer.KafkaProducer;
import io.vertx.kafka.client.producer.KafkaProducerRecord;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;

/** The Vert.x client: KafkaProducer, KafkaConsumer and KafkaAdminClient of io.vertx.kafka. */
final class VertxLibrary implements Library {
    private final String bootstrap;
    private final Vertx vertx = Vertx.vertx();
    private KafkaAdminClient admin;

    VertxLibrary(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    @Override
    public Hello hello() {
        return new Hello("Vert.x Kafka client", Agent.jarVersion(KafkaConsumer.class), List.of("null-header-value"), null,
                "its handler for revoked partitions runs beside the rebalance, which does not wait for it", "kafka-clients " + Agent.kafkaVersion());
    }

    static <T> T await(Future<T> future) throws Exception {
        try {
            return future.toCompletionStage().toCompletableFuture().get(Steps.STEP_MS, TimeUnit.MILLISECONDS);
        } catch (TimeoutException e) {
            throw new TimeoutException("the future did not complete");
        }
    }

    /** This client takes its settings as texts. */
    static Map<String, String> texts(Map<String, Object> config) {
        Map<String, String> texts = new HashMap<>();
        config.forEach((key, value) -> texts.put(key, value.toString()));
        return texts;
    }

    private KafkaAdminClient admin() {
        if (admin == null) {
            admin = KafkaAdminClient.create(vertx, new HashMap<>(Map.of("bootstrap.servers", bootstrap)));
        }
        return admin;
    }

    @Override
    public void createTopic(String topic, int partitions, Map<String, String> configs) throws Exception {
        await(admin().createTopics(List.of(new NewTopic(topic, partitions, (short) 1).setConfig(configs))));
    }

    @Override
    public Produced produce(Produce order) throws Exception {
        KafkaProducer<byte[], byte[]> producer = KafkaProducer.create(vertx, texts(Settings.producer(bootstrap, order)));
        Acknowledged acknowledged = new Acknowledged();
        Flow flow = new Flow(100_000);
        try (RecordFile.Reader file = new RecordFile.Reader(order.file(), order.topic())) {
            ProducerRecord<byte[], byte[]> next;
            while (!acknowledged.failed() && (next = file.next()) != null) {
                KafkaProducerRecord<byte[], byte[]> record =
                        KafkaProducerRecord.create(next.topic(), next.key(), next.value(), next.timestamp(), next.partition());
                for (Header header : next.headers()) {
                    record.addHeader(KafkaHeader.header(header.key(), header.value()));
                }
                flow.begin();
                producer.send(record).onComplete(sent -> {
                    if (sent.failed()) {
                        acknowledged.failed(sent.cause());
                    } else {
                        acknowledged.acknowledged(sent.result().getPartition(), sent.result().getOffset());
                    }
                    flow.end();
                });
            }
            await(producer.flush());
            flow.awaitNone(order.timeoutMs());
        } finally {
            await(producer.close());
        }
        return acknowledged.result();
    }

    /** Counts what was sent and not answered: sending here hands a record to another thread and never waits by itself. */
    private static final class Flow {
        private final int limit;
        private int pending;

        Flow(int limit) {
            this.limit = limit;
        }

        synchronized void begin() throws InterruptedException {
            while (pending >= limit) {
                wait();
            }
            pending++;
        }

        synchronized void end() {
            pending--;
            notifyAll();
        }

        synchronized void awaitNone(long ms) throws Exception {
            long deadline = System.nanoTime() + ms * 1_000_000;
            while (pending > 0) {
                long left = (deadline - System.nanoTime()) / 1_000_000;
                if (left <= 0) {
                    throw new TimeoutException(pending + " records were not answered");
                }
                wait(left);
            }
        }
    }

    @Override
    public GroupMember open(Membership membership) throws Exception {
        return new VertxMember(vertx, texts(Settings.member(bootstrap, membership)), membership.topic());
    }

    @Override
    public Map<Integer, Long> seekTime(Seek seek) throws Exception {
        KafkaConsumer<byte[], byte[]> consumer = KafkaConsumer.create(vertx, texts(Settings.consumer(bootstrap)));
        try {
            Map<TopicPartition, Long> times = new HashMap<>();
            await(consumer.partitionsFor(seek.topic()))
                    .forEach(info -> times.put(new TopicPartition(seek.topic(), info.getPartition()), seek.timestamp()));
            // A partition without such a record is left out of the answer.
            Map<TopicPartition, OffsetAndTimestamp> found = await(consumer.offsetsForTimes(times));
            Map<Integer, Long> offsets = new TreeMap<>();
            times.keySet().forEach(partition -> offsets.put(partition.getPartition(), -1L));
            found.forEach((partition, start) -> offsets.put(partition.getPartition(), start.getOffset()));
            if (found.isEmpty()) {
                return offsets;
            }
            Inbox inbox = new Inbox();
            // Nothing is read before all partitions stand where reading begins.
            consumer.handler(record -> inbox.push(record.record())).pause();
            await(consumer.assign(found.keySet()));
            for (Map.Entry<TopicPartition, OffsetAndTimestamp> start : found.entrySet()) {
                await(consumer.seek(start.getKey(), start.getValue().getOffset()));
            }
            inbox.collect(seek.out(), seek.count(), seek.timeoutMs(), consumer::resume, consumer::pause);
            return offsets;
        } finally {
            await(consumer.close());
        }
    }

    @Override
    public List<PartitionState> describeTopic(String topic) throws Exception {
        return await(admin().describeTopics(List.of(topic))).get(topic).getPartitions().stream()
                .map(info -> new PartitionState(info.getPartition(), info.getLeader() == null ? -1 : info.getLeader().getId(), ids(info.getReplicas()),
                        ids(info.getIsr())))
                .toList();
    }

    private static List<Integer> ids(List<Node> nodes) {
        return nodes.stream().map(Node::getId).toList();
    }

    @Override
    public Map<String, String> describeConfigs(String topic) throws Exception {
        ConfigResource resource = new ConfigResource(org.apache.kafka.common.config.ConfigResource.Type.TOPIC, topic);
        Config config = await(admin().describeConfigs(List.of(resource))).get(resource);
        Map<String, String> configs = new TreeMap<>();
        config.getEntries().forEach(entry -> configs.put(entry.getName(), entry.getValue()));
        return configs;
    }

    @Override
    public GroupState describeGroup(String group) throws Exception {
        ConsumerGroupDescription description = await(admin().describeConsumerGroups(List.of(group))).get(group);
        return new GroupState(description.getState().toString(), description.getMembers().size());
    }

    @Override
    public Map<Integer, Long> lag(String group, String topic) throws Exception {
        Map<TopicPartition, OffsetAndMetadata> committed = await(admin().listConsumerGroupOffsets(group));
        committed.keySet().removeIf(partition -> !partition.getTopic().equals(topic));
        Map<TopicPartition, OffsetSpec> specs = new HashMap<>();
        committed.keySet().forEach(partition -> specs.put(partition, OffsetSpec.LATEST));
        Map<Integer, Long> lag = new TreeMap<>();
        await(admin().listOffsets(specs))
                .forEach((partition, end) -> lag.put(partition.getPartition(), end.getOffset() - committed.get(partition).getOffset()));
        return lag;
    }

    @Override
    public void deleteTopic(String topic) throws Exception {
        await(admin().deleteTopics(List.of(topic)));
    }

    @Override
    public void deleteGroup(String group) throws Exception {
        await(admin().deleteConsumerGroups(List.of(group)));
    }

    @Override
    public void close() {
        vertx.close();
    }
}
