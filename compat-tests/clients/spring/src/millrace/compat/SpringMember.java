package millrace.compat;

import java.nio.file.Path;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.listener.AcknowledgingMessageListener;
import org.springframework.kafka.listener.ConcurrentMessageListenerContainer;
import org.springframework.kafka.listener.ConsumerAwareRebalanceListener;
import org.springframework.kafka.listener.ContainerProperties;
import org.springframework.kafka.support.Acknowledgment;

/**
 * A listener container. Its thread polls by itself; between requests the container is paused, and what it still hands over
 * then is kept. A commit is the acknowledgment of the last record written of each partition, done when the container's
 * commit callback has told of all of them.
 */
final class SpringMember implements GroupMember, ConsumerAwareRebalanceListener, AcknowledgingMessageListener<byte[], byte[]> {
    private static final int POLL_MS = 200;

    private final String topic;
    private final Inbox inbox = new Inbox();
    private final ConcurrentMessageListenerContainer<byte[], byte[]> container;
    /** By partition and offset, of records that were handed over; older ones go when a later one is acknowledged. */
    private final Map<Integer, Map<Long, Acknowledgment>> open = new ConcurrentHashMap<>();
    private final Set<Map.Entry<Integer, Long>> due = new HashSet<>();
    private CompletableFuture<Void> committed = new CompletableFuture<>();
    private volatile boolean closing;

    SpringMember(Map<String, Object> config, String topic) {
        this.topic = topic;
        ContainerProperties properties = new ContainerProperties(topic);
        properties.setAckMode(ContainerProperties.AckMode.MANUAL_IMMEDIATE);
        properties.setSyncCommits(false);
        properties.setCommitCallback(this::onCommit);
        properties.setPollTimeout(POLL_MS);
        properties.setConsumerRebalanceListener(this);
        properties.setMessageListener(this);
        container = new ConcurrentMessageListenerContainer<>(new DefaultKafkaConsumerFactory<byte[], byte[]>(config), properties);
        container.pause();
        container.start();
    }

    @Override
    public void onMessage(ConsumerRecord<byte[], byte[]> record, Acknowledgment acknowledgment) {
        open.computeIfAbsent(record.partition(), p -> new ConcurrentHashMap<>()).put(record.offset(), acknowledgment);
        inbox.push(record);
    }

    @Override
    public long consume(Path out, long count, long timeoutMs) throws Exception {
        return inbox.collect(out, count, timeoutMs, container::resume, container::pause);
    }

    @Override
    public Collection<Integer> assignment() {
        return inbox.owned();
    }

    @Override
    public void commit() throws Exception {
        CompletableFuture<Void> done;
        Map<Integer, Long> written = inbox.written();
        synchronized (due) {
            due.clear();
            committed = done = new CompletableFuture<>();
            written.forEach((partition, offset) -> due.add(Map.entry(partition, offset)));
        }
        if (written.isEmpty()) {
            return;
        }
        written.forEach((partition, offset) -> {
            Map<Long, Acknowledgment> acknowledgments = open.get(partition);
            Acknowledgment last = acknowledgments == null ? null : acknowledgments.remove(offset - 1);
            if (last == null) {
                onCommit(Map.of(new TopicPartition(topic, partition), new OffsetAndMetadata(offset)), null); // committed before
                return;
            }
            acknowledgments.keySet().removeIf(older -> older < offset);
            last.acknowledge();
        });
        done.get(Steps.STEP_MS, TimeUnit.MILLISECONDS);
    }

    private void onCommit(Map<TopicPartition, OffsetAndMetadata> offsets, Exception failure) {
        synchronized (due) {
            if (failure != null) {
                committed.completeExceptionally(failure);
                return;
            }
            offsets.forEach((partition, offset) -> due.remove(Map.entry(partition.partition(), offset.offset())));
            if (due.isEmpty()) {
                committed.complete(null);
            }
        }
    }

    @Override
    public void close() {
        closing = true;
        container.stop();
    }

    @Override
    public void onPartitionsAssigned(Consumer<?, ?> consumer, Collection<TopicPartition> partitions) {
        inbox.assigned(numbers(partitions));
    }

    @Override
    public void onPartitionsRevokedBeforeCommit(Consumer<?, ?> consumer, Collection<TopicPartition> partitions) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        forget(partitions).forEach((partition, offset) -> offsets.put(new TopicPartition(topic, partition), new OffsetAndMetadata(offset)));
        if (!closing && !offsets.isEmpty()) {
            consumer.commitSync(offsets);
        }
    }

    @Override
    public void onPartitionsLost(Consumer<?, ?> consumer, Collection<TopicPartition> partitions) {
        System.err.println("lost " + partitions);
        forget(partitions);
    }

    private Map<Integer, Long> forget(Collection<TopicPartition> partitions) {
        Collection<Integer> numbers = numbers(partitions);
        open.keySet().removeAll(numbers);
        return inbox.revoked(numbers);
    }

    private static Collection<Integer> numbers(Collection<TopicPartition> partitions) {
        return partitions.stream().map(TopicPartition::partition).collect(Collectors.toSet());
    }
}
