package millrace.compat;

import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;

/** The calls of 0.8.2, whose records have no timestamps. */
final class Calls {
    private Calls() {
    }

    static Library library(String bootstrap) {
        return new SimpleClients(bootstrap);
    }

    static ProducerRecord<byte[], byte[]> record(String topic, Integer partition, Long timestamp, byte[] key, byte[] value) {
        return new ProducerRecord<>(topic, partition, key, value);
    }

    static long timestamp(ConsumerRecord<byte[], byte[]> record) {
        return -1;
    }

    static void limit(Map<String, Object> config, int ms) {
        config.put(ProducerConfig.METADATA_FETCH_TIMEOUT_CONFIG, ms);
        config.put(ProducerConfig.TIMEOUT_CONFIG, ms / 2);
    }
}
