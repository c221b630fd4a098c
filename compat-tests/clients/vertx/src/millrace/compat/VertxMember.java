package millrace.compat;

import io.vertx.core.Vertx;
import io.vertx.kafka.client.common.TopicPartition;
import io.vertx.kafka.client.consumer.KafkaConsumer;
import io.vertx.kafka.client.consumer.OffsetAndMetadata;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;

/**
 * A consumer with a record handler. Its partitions are paused between requests, not its stream: a paused stream is not
 * polled, and then takes no part in rebalances.
 */
final class VertxMember implements GroupMember {
    private final Inbox inbox = new Inbox();
    private final String topic;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private volatile boolean reading;

    VertxMember(Vertx vertx, Map<String, String> config, String topic) throws Exception {
        this.topic = topic;
        consumer = KafkaConsumer.create(vertx, config);
        consumer.pollTimeout(Duration.ofMillis(100));
        consumer.exceptionHandler(Throwable::printStackTrace);
        consumer.partitionsAssignedHandler(partitions -> {
            inbox.assigned(numbers(partitions));
            if (!reading) {
                consumer.pause(partitions);
            }
        });
        consumer.partitionsRevokedHandler(partitions -> inbox.revoked(numbers(partitions)));
        consumer.handler(record -> {
            // A record of a partition that was taken away in the meantime is nobody's.
            if (inbox.owned().contains(record.partition())) {
                inbox.push(record.record());
            }
        });
        VertxLibrary.await(consumer.subscribe(topic));
    }

    private static Collection<Integer> numbers(Set<TopicPartition> partitions) {
        return partitions.stream().map(TopicPartition::getPartition).collect(Collectors.toSet());
    }

    private Set<TopicPartition> owned() {
        return inbox.owned().stream().map(partition -> new TopicPartition(topic, partition)).collect(Collectors.toSet());
    }

    @Override
    public long consume(Path out, long count, long timeoutMs) throws Exception {
        return inbox.collect(out, count, timeoutMs, () -> {
            reading = true;
            consumer.resume(owned());
        }, () -> {
            reading = false;
            consumer.pause(owned());
        });
    }

    @Override
    public Collection<Integer> assignment() {
        return inbox.owned();
    }

    @Override
    public void commit() throws Exception {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        inbox.written().forEach((partition, offset) -> offsets.put(new TopicPartition(topic, partition), new OffsetAndMetadata(offset, "")));
        VertxLibrary.await(consumer.commit(offsets));
    }

    @Override
    public void close() throws Exception {
        VertxLibrary.await(consumer.close());
    }
}
