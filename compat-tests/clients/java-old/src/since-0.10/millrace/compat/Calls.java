package millrace.compat;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/** The calls of 0.10.2. */
final class Calls {
    static final List<String> CANNOT = List.of("headers");

    private Calls() {
    }

    static Library library(String bootstrap) {
        return new OldClients(bootstrap);
    }

    static ProducerRecord<byte[], byte[]> record(String topic, Integer partition, Long timestamp, byte[] key, byte[] value) {
        return new ProducerRecord<>(topic, partition, timestamp, key, value);
    }

    static long timestamp(ConsumerRecord<byte[], byte[]> record) {
        return record.timestamp();
    }

    static void limit(Map<String, Object> config, int ms) {
        config.put(ProducerConfig.MAX_BLOCK_MS_CONFIG, ms);
        config.put(ProducerConfig.REQUEST_TIMEOUT_MS_CONFIG, ms / 2);
    }

    static ConsumerRecords<byte[], byte[]> poll(Consumer<byte[], byte[]> consumer, long ms) {
        return consumer.poll(ms);
    }

    /** This version says CommitFailedException for a member that was removed too, so it is no reason to try again. */
    static boolean duringRebalance(RuntimeException e) {
        return false;
    }

    static void pause(Consumer<byte[], byte[]> consumer) {
        consumer.pause(consumer.assignment());
    }

    static void resume(Consumer<byte[], byte[]> consumer) {
        consumer.resume(consumer.paused());
    }

    static void seekToEnd(Consumer<byte[], byte[]> consumer, TopicPartition partition) {
        consumer.seekToEnd(List.of(partition));
    }

    static Map<Integer, Long> seekTime(Consumer<byte[], byte[]> consumer, Library.Seek seek) throws Exception {
        long deadline = System.nanoTime() + seek.timeoutMs() * 1_000_000;
        Map<Integer, Long> offsets = new TreeMap<>();
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
        try (RecordFile.Writer out = new RecordFile.Writer(seek.out())) {
            while (written < seek.count() && !starts.isEmpty() && System.nanoTime() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : poll(consumer, 200)) {
                    out.write(record);
                    written++;
                }
            }
        }
        return offsets;
    }
}
