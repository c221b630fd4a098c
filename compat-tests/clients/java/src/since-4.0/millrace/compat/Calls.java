package millrace.compat;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;

/** The calls since 4.0: what 3.x had deprecated is gone, and groups of all kinds have one state. */
final class Calls {
    static final List<String> CODECS = null;
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

    static boolean duringRebalance(RuntimeException e) {
        return e instanceof RebalanceInProgressException;
    }

    static TopicDescription describeTopic(AdminClient admin, String topic) throws Exception {
        return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
    }

    static Library.GroupState describeGroup(AdminClient admin, String group) throws Exception {
        ConsumerGroupDescription description = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
        return new Library.GroupState(description.groupState().toString(), description.members().size());
    }

    static void deleteGroup(AdminClient admin, String group) throws Exception {
        admin.deleteConsumerGroups(List.of(group)).all().get();
    }

    static Map<Integer, Long> lag(AdminClient admin, String bootstrap, String group, String topic) throws Exception {
        Map<TopicPartition, OffsetSpec> ends = new HashMap<>();
        Map<TopicPartition, Long> committed = new HashMap<>();
        for (Map.Entry<TopicPartition, OffsetAndMetadata> commit : admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().entrySet()) {
            if (commit.getKey().topic().equals(topic) && commit.getValue() != null) {
                ends.put(commit.getKey(), OffsetSpec.latest());
                committed.put(commit.getKey(), commit.getValue().offset());
            }
        }
        Map<Integer, Long> lag = new TreeMap<>();
        admin.listOffsets(ends).all().get().forEach((partition, end) -> lag.put(partition.partition(), end.offset() - committed.get(partition)));
        return lag;
    }

    static void close(AdminClient admin) {
        admin.close(Duration.ofSeconds(2));
    }
}
