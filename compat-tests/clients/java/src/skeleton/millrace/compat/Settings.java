package millrace.compat;

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The settings that the scenario wants of a producer and of a group member, for every library that hands settings through
 * to kafka-clients. Keys that came with later versions are written out: an older client warns of them and goes on.
 */
final class Settings {
    private static final String ASSIGNORS = "org.apache.kafka.clients.consumer.";

    private Settings() {
    }

    static Map<String, Object> producer(String bootstrap, Library.Produce order) {
        Map<String, Object> config = new HashMap<>();
        config.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        config.put(ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class.getName());
        config.put(ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class.getName());
        config.put(ProducerConfig.COMPRESSION_TYPE_CONFIG, order.codec());
        config.put(ProducerConfig.ENABLE_IDEMPOTENCE_CONFIG, order.idempotent());
        config.put(ProducerConfig.ACKS_CONFIG, order.acks());
        config.put(ProducerConfig.MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION, order.inFlight());
        config.put(ProducerConfig.LINGER_MS_CONFIG, 10);
        config.put(ProducerConfig.BATCH_SIZE_CONFIG, 128 * 1024);
        // A record may be larger than the broker's limit for a batch as long as it compresses well.
        config.put(ProducerConfig.MAX_REQUEST_SIZE_CONFIG, 4 * 1024 * 1024);
        config.put(ProducerConfig.BUFFER_MEMORY_CONFIG, 64L * 1024 * 1024);
        config.put(ProducerConfig.MAX_BLOCK_MS_CONFIG, order.timeoutMs());
        config.put("delivery.timeout.ms", order.timeoutMs());
        // The client wants a delivery to have time for at least one request and its linger.
        config.put(ProducerConfig.REQUEST_TIMEOUT_MS_CONFIG, order.timeoutMs() / 2);
        // The default since 2.1; before, the first refused request lost its records.
        config.put(ProducerConfig.RETRIES_CONFIG, Integer.MAX_VALUE);
        return config;
    }

    static Map<String, Object> member(String bootstrap, Library.Membership membership) throws Answers.Unsupported {
        Map<String, Object> config = consumer(bootstrap);
        config.put(ConsumerConfig.GROUP_ID_CONFIG, membership.group());
        config.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        if (membership.instance() != null) {
            config.put("group.instance.id", membership.instance());
        }
        if (membership.nextGeneration()) {
            // KIP-848: the broker assigns, by an assignor of its own that the member may name.
            config.put("group.protocol", "consumer");
            if (membership.strategy() != null) {
                config.put("group.remote.assignor", membership.strategy());
            }
            return config;
        }
        config.put(ConsumerConfig.PARTITION_ASSIGNMENT_STRATEGY_CONFIG, assignor(membership.strategy() == null ? "range" : membership.strategy()));
        config.put(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG, 10_000);
        config.put(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG, 300);
        return config;
    }

    /** A consumer outside of any group. */
    static Map<String, Object> consumer(String bootstrap) {
        Map<String, Object> config = new HashMap<>();
        config.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        config.put(ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class.getName());
        config.put(ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class.getName());
        config.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, "false");
        config.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "none");
        config.put("isolation.level", "read_uncommitted");
        return config;
    }

    private static String assignor(String strategy) throws Answers.Unsupported {
        String name = switch (strategy) {
            case "range" -> "RangeAssignor";
            case "roundrobin" -> "RoundRobinAssignor";
            case "sticky" -> "StickyAssignor";
            case "cooperative-sticky" -> "CooperativeStickyAssignor";
            default -> throw new Answers.Unsupported("the client has no assignor " + strategy);
        };
        try {
            return Class.forName(ASSIGNORS + name).getName();
        } catch (ClassNotFoundException e) {
            throw new Answers.Unsupported("the client has no assignor " + strategy);
        }
    }
}
