package millrace.compat;

import java.nio.file.Path;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.Consumer;
import org.reactivestreams.Subscription;
import reactor.core.publisher.BaseSubscriber;
import reactor.core.publisher.Mono;
import reactor.kafka.receiver.KafkaReceiver;
import reactor.kafka.receiver.ReceiverOffset;
import reactor.kafka.receiver.ReceiverOptions;
import reactor.kafka.receiver.ReceiverPartition;
import reactor.kafka.receiver.ReceiverRecord;

/**
 * A receiver whose subscriber demands as many records as the driver asks for. What was written is acknowledged, and the
 * receiver commits that when partitions are taken away.
 */
final class ReactorMember extends BaseSubscriber<ReceiverRecord<byte[], byte[]>> implements GroupMember {
    private final Inbox inbox = new Inbox();
    private final Map<Integer, ReceiverOffset> last = new ConcurrentHashMap<>();
    private final CompletableFuture<Void> gone = new CompletableFuture<>();
    private volatile Throwable failure;

    ReactorMember(Map<String, Object> config, String topic) {
        ReceiverOptions<byte[], byte[]> options = ReceiverOptions.<byte[], byte[]>create(config).subscription(List.of(topic))
                .commitInterval(Duration.ZERO).commitBatchSize(0).maxDelayRebalance(Duration.ZERO)
                .addAssignListener(assigned -> inbox.assigned(numbers(assigned)))
                .addRevokeListener(revoked -> {
                    last.keySet().removeAll(numbers(revoked));
                    inbox.revoked(numbers(revoked));
                })
                .consumerListener(new ReceiverOptions.ConsumerListener() {
                    @Override
                    public void consumerAdded(String id, Consumer<?, ?> consumer) {
                    }

                    @Override
                    public void consumerRemoved(String id, Consumer<?, ?> consumer) {
                        gone.complete(null);
                    }
                });
        KafkaReceiver.create(options).receive().subscribe(this);
    }

    private static Collection<Integer> numbers(Collection<ReceiverPartition> partitions) {
        return partitions.stream().map(partition -> partition.topicPartition().partition()).collect(Collectors.toSet());
    }

    @Override
    protected void hookOnSubscribe(Subscription subscription) {
        // Nothing is demanded before the driver asks for it.
    }

    @Override
    protected void hookOnNext(ReceiverRecord<byte[], byte[]> record) {
        if (!inbox.owned().contains(record.partition())) {
            request(1); // of a partition that was taken away while the record was on its way
            return;
        }
        inbox.push(record);
        last.put(record.partition(), record.receiverOffset());
        record.receiverOffset().acknowledge();
    }

    @Override
    protected void hookOnError(Throwable e) {
        failure = e;
    }

    @Override
    public long consume(Path out, long count, long timeoutMs) throws Exception {
        return inbox.collect(out, count, timeoutMs, () -> request(count), () -> { });
    }

    @Override
    public Collection<Integer> assignment() {
        if (failure != null) {
            throw new IllegalStateException("the receiver has ended", failure);
        }
        return inbox.owned();
    }

    @Override
    public void commit() {
        List<Mono<Void>> commits = last.values().stream().map(ReceiverOffset::commit).toList();
        Mono.when(commits).block(Duration.ofMillis(Steps.STEP_MS));
    }

    @Override
    public void close() throws Exception {
        cancel();
        gone.get(Steps.STEP_MS, TimeUnit.MILLISECONDS);
    }
}
