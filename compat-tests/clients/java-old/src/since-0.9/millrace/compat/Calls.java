package millrace.compat;

import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** The calls of 0.9, whose records have no timestamps. */
final class Calls {
    static final List<String> CANNOT = List.of("headers", "any-timestamp");

    private Calls() {
    }

    static Library library(String bootstrap) {
        return new OldClients(bootstrap);
    }

    static ProducerRecord<byte[], byte[]> record(String topic, Integer partition, Long timestamp, byte[] key, byte[] value) {
        return new ProducerRecord<>(topic, partition, key, value);
    }

    static long timestamp(ConsumerRecord<byte[], byte[]> record) {
        return -1;
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
        consumer.pause(consumer.assignment().toArray(new TopicPartition[0]));
    }

    static void resume(Consumer<byte[], byte[]> consumer) {
        consumer.resume(consumer.assignment().toArray(new TopicPartition[0]));
    }

    static void seekToEnd(Consumer<byte[], byte[]> consumer, TopicPartition partition) {
        consumer.seekToEnd(partition);
    }

    static Map<Integer, Long> seekTime(Consumer<byte[], byte[]> consumer, Library.Seek seek) throws Answers.Unsupported {
        throw new Answers.Unsupported("the consumer looks offsets up by time since 0.10.1");
    }
}
