package millrace.compat;

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The producer, which has the same calls in all these versions. */
final class OldProducer {
    private OldProducer() {
    }

    static Library.Produced produce(String bootstrap, Library.Produce order) throws Exception {
        if (order.idempotent()) {
            throw new Answers.Unsupported("producers are idempotent since 0.11");
        }
        Map<String, Object> config = new HashMap<>();
        config.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        config.put(ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class.getName());
        config.put(ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class.getName());
        config.put(ProducerConfig.COMPRESSION_TYPE_CONFIG, order.codec());
        config.put(ProducerConfig.ACKS_CONFIG, order.acks());
        config.put(ProducerConfig.MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION, 1);
        config.put(ProducerConfig.LINGER_MS_CONFIG, 10);
        config.put(ProducerConfig.BATCH_SIZE_CONFIG, 128 * 1024);
        config.put(ProducerConfig.MAX_REQUEST_SIZE_CONFIG, 4 * 1024 * 1024);
        config.put(ProducerConfig.BUFFER_MEMORY_CONFIG, 64L * 1024 * 1024);
        config.put(ProducerConfig.RETRIES_CONFIG, 1000);
        Calls.limit(config, order.timeoutMs());
        Acknowledged acknowledged = new Acknowledged();
        // To close it waits for what was sent.
        try (RecordFile.Reader file = new RecordFile.Reader(order.file(), order.topic());
                KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config)) {
            ProducerRecord<byte[], byte[]> record;
            while (!acknowledged.failed() && (record = file.next()) != null) {
                producer.send(record, acknowledged);
            }
        }
        return acknowledged.result();
    }
}
