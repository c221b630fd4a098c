package millrace.compat;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** The calls since 2.0: poll(Duration) and groups in the AdminClient, but no log ends there and no zstd. */
final class Calls {
    static final List<String> CODECS = List.of("none", "gzip", "snappy", "lz4");
    static final int IDEMPOTENT_IN_FLIGHT = 5;

    private Calls() {
    }

    static ConsumerRecords<byte[], byte[]> poll(Consumer<byte[], byte[]> consumer, long ms) {
        return consumer.poll(Duration.ofMillis(ms));
    }

    static void pause(Consumer<byte[], byte[]> consumer) {
        consumer.pause(consumer.assignment());
    }

    static void resume(Consumer<byte[], byte[]> consumer) {
        consumer.resume(consumer.paused());
    }

    /** This version says CommitFailedException for a member that was removed too, so it is no reason to try again. */
    static boolean duringRebalance(RuntimeException e) {
        return false;
    }

    static TopicDescription describeTopic(AdminClient admin, String topic) throws Exception {
        return admin.describeTopics(List.of(topic)).all().get().get(topic);
    }

    static Library.GroupState describeGroup(AdminClient admin, String group) throws Exception {
        ConsumerGroupDescription description = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
        return new Library.GroupState(description.state().toString(), description.members().size());
    }

    static void deleteGroup(AdminClient admin, String group) throws Exception {
        admin.deleteConsumerGroups(List.of(group)).all().get();
    }

    static Map<Integer, Long> lag(AdminClient admin, String bootstrap, String group, String topic) throws Exception {
        Map<TopicPartition, Long> committed = new HashMap<>();
        for (Map.Entry<TopicPartition, OffsetAndMetadata> commit : admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().entrySet()) {
            if (commit.getKey().topic().equals(topic) && commit.getValue() != null) {
                committed.put(commit.getKey(), commit.getValue().offset());
            }
        }
        Map<Integer, Long> lag = new TreeMap<>();
        try (Consumer<byte[], byte[]> consumer = new KafkaConsumer<>(Settings.consumer(bootstrap))) {
            consumer.endOffsets(committed.keySet()).forEach((partition, end) -> lag.put(partition.partition(), end - committed.get(partition)));
        }
        return lag;
    }

    static void close(AdminClient admin) {
        admin.close(2, TimeUnit.SECONDS);
    }
}
