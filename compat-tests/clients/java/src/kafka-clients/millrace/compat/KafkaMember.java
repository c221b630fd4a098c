package millrace.compat;

import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** A member that is polled by its owner. Between requests it goes on polling with all partitions paused. */
final class KafkaMember implements GroupMember, ConsumerRebalanceListener {
    private static final long POLL_MS = 100;

    private final Consumer<byte[], byte[]> consumer;
    private boolean closing;
    /** Offset after the last record written, for each assigned partition of which one was. */
    private final Map<TopicPartition, OffsetAndMetadata> written = new HashMap<>();
    /** Records that came without being asked for, in the order in which they came. */
    private final ArrayDeque<ConsumerRecord<byte[], byte[]>> kept = new ArrayDeque<>();

    KafkaMember(Map<String, Object> config, String topic) {
        consumer = new KafkaConsumer<>(config);
        consumer.subscribe(List.of(topic), this);
    }

    @Override
    public void idle() {
        Calls.pause(consumer);
        Calls.poll(consumer, POLL_MS).forEach(kept::add);
    }

    @Override
    public long consume(Path file, long wanted, long timeoutMs) throws Exception {
        long deadline = System.nanoTime() + timeoutMs * 1_000_000;
        long count = 0;
        Calls.resume(consumer);
        try (RecordFile.Writer out = new RecordFile.Writer(file)) {
            for (ConsumerRecord<byte[], byte[]> record = kept.poll(); record != null; record = kept.poll()) {
                write(out, record);
                count++;
            }
            while (count < wanted) {
                long left = (deadline - System.nanoTime()) / 1_000_000;
                if (left <= 0) {
                    break;
                }
                for (ConsumerRecord<byte[], byte[]> record : Calls.poll(consumer, Math.min(left, 200))) {
                    write(out, record);
                    count++;
                }
            }
        }
        return count;
    }

    private void write(RecordFile.Writer out, ConsumerRecord<byte[], byte[]> record) throws Exception {
        out.write(record);
        written.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
    }

    @Override
    public Collection<Integer> assignment() {
        TreeSet<Integer> partitions = new TreeSet<>();
        consumer.assignment().forEach(partition -> partitions.add(partition.partition()));
        return partitions;
    }

    /** A commit during a rebalance is refused until poll has finished it; the revoked partitions were committed then. */
    @Override
    public void commit() {
        long deadline = System.nanoTime() + Steps.STEP_MS * 1_000_000;
        while (true) {
            try {
                consumer.commitSync(new HashMap<>(written));
                return;
            } catch (RuntimeException e) {
                if (!Calls.duringRebalance(e) || System.nanoTime() > deadline) {
                    throw e;
                }
                idle();
            }
        }
    }

    @Override
    public void close() {
        closing = true;
        consumer.close();
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (TopicPartition partition : partitions) {
            OffsetAndMetadata offset = written.get(partition);
            if (offset != null) {
                offsets.put(partition, offset);
            }
        }
        forget(partitions);
        if (!closing && !offsets.isEmpty()) {
            consumer.commitSync(offsets);
        }
    }

    /** Overrides the listener's method where it has one, since 2.4 (KIP-429). */
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        System.err.println("lost " + partitions);
        forget(partitions);
    }

    private void forget(Collection<TopicPartition> partitions) {
        partitions.forEach(written::remove);
        kept.removeIf(record -> partitions.contains(new TopicPartition(record.topic(), record.partition())));
    }
}
