package millrace.compat;

import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/** The calls of 0.11 and 1.0: the first AdminClient, which knew topics and configs, and poll(long). */
final class Calls {
    static final List<String> CODECS = List.of("none", "gzip", "snappy", "lz4");
    /** 0.11 insists on it, and 1.0 may have more. */
    static final int IDEMPOTENT_IN_FLIGHT = 1;

    private Calls() {
    }

    static ConsumerRecords<byte[], byte[]> poll(Consumer<byte[], byte[]> consumer, long ms) {
        return consumer.poll(ms);
    }

    static void pause(Consumer<byte[], byte[]> consumer) {
        consumer.pause(consumer.assignment());
    }

    static void resume(Consumer<byte[], byte[]> consumer) {
        consumer.resume(consumer.paused());
    }

    /** These versions say CommitFailedException for a member that was removed too, so it is no reason to try again. */
    static boolean duringRebalance(RuntimeException e) {
        return false;
    }

    static TopicDescription describeTopic(AdminClient admin, String topic) throws Exception {
        return admin.describeTopics(List.of(topic)).all().get().get(topic);
    }

    static Library.GroupState describeGroup(AdminClient admin, String group) throws Answers.Unsupported {
        throw new Answers.Unsupported("the AdminClient describes groups since 2.0");
    }

    static void deleteGroup(AdminClient admin, String group) throws Answers.Unsupported {
        throw new Answers.Unsupported("the AdminClient deletes groups since 2.0");
    }

    /** A consumer with the group's id and no subscription reads committed offsets and log ends. */
    static Map<Integer, Long> lag(AdminClient admin, String bootstrap, String group, String topic) {
        Map<String, Object> config = Settings.consumer(bootstrap);
        config.put(ConsumerConfig.GROUP_ID_CONFIG, group);
        Map<Integer, Long> lag = new TreeMap<>();
        try (Consumer<byte[], byte[]> consumer = new KafkaConsumer<>(config)) {
            for (PartitionInfo info : consumer.partitionsFor(topic)) {
                TopicPartition partition = new TopicPartition(topic, info.partition());
                OffsetAndMetadata committed = consumer.committed(partition);
                if (committed != null) {
                    lag.put(info.partition(), consumer.endOffsets(List.of(partition)).get(partition) - committed.offset());
                }
            }
        }
        return lag;
    }

    static void close(AdminClient admin) {
        admin.close(2, TimeUnit.SECONDS);
    }
}
