package millrace.compat;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import reactor.core.Disposable;
import reactor.core.publisher.Flux;
import reactor.core.publisher.SynchronousSink;
import reactor.kafka.receiver.KafkaReceiver;
import reactor.kafka.receiver.ReceiverOptions;
import reactor.kafka.sender.KafkaSender;
import reactor.kafka.sender.SenderOptions;
import reactor.kafka.sender.SenderRecord;

/** Reactor Kafka: KafkaSender and KafkaReceiver. It has no admin calls. */
final class ReactorLibrary implements Library {
    private final String bootstrap;

    ReactorLibrary(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    @Override
    public Hello hello() {
        return new Hello("Reactor Kafka", Agent.jarVersion(KafkaReceiver.class), null, null,
                "what its pipeline held before a rebalance is handed over after it",
                "kafka-clients " + Agent.kafkaVersion() + "; it commits by itself what was acknowledged, at a rebalance and when it ends");
    }

    @Override
    public Produced produce(Produce order) throws Exception {
        // The results of records that are on their way, instead of 256: linger would make that slow.
        SenderOptions<byte[], byte[]> options = SenderOptions.<byte[], byte[]>create(Settings.producer(bootstrap, order)).maxInFlight(8192);
        KafkaSender<byte[], byte[]> sender = KafkaSender.create(options);
        Acknowledged acknowledged = new Acknowledged();
        try (RecordFile.Reader file = new RecordFile.Reader(order.file(), order.topic())) {
            Flux<SenderRecord<byte[], byte[], Void>> records = Flux.generate(sink -> next(file, sink));
            sender.send(records).doOnNext(sent -> acknowledged.onCompletion(sent.recordMetadata(), sent.exception()))
                    .blockLast(Duration.ofMillis(order.timeoutMs()));
        } finally {
            sender.close();
        }
        return acknowledged.result();
    }

    private static void next(RecordFile.Reader file, SynchronousSink<SenderRecord<byte[], byte[], Void>> sink) {
        try {
            ProducerRecord<byte[], byte[]> record = file.next();
            if (record == null) {
                sink.complete();
            } else {
                sink.next(SenderRecord.create(record, null));
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public GroupMember open(Membership membership) throws Exception {
        return new ReactorMember(Settings.member(bootstrap, membership), membership.topic());
    }

    /** Asks the consumer of a receiver that is given one partition and from which nothing is demanded. */
    private <T> T ask(Map<String, Object> config, String topic, Function<Consumer<byte[], byte[]>, T> question) {
        KafkaReceiver<byte[], byte[]> receiver = KafkaReceiver.create(ReceiverOptions.<byte[], byte[]>create(config)
                .consumerProperty(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest").assignment(List.of(new TopicPartition(topic, 0))));
        Disposable running = receiver.receive().limitRate(1).subscribe(record -> { });
        try {
            return receiver.doOnConsumer(question::apply).block(Duration.ofMillis(Steps.STEP_MS));
        } finally {
            running.dispose();
        }
    }

    private static Set<TopicPartition> partitions(Consumer<byte[], byte[]> consumer, String topic) {
        return consumer.partitionsFor(topic).stream().map(info -> new TopicPartition(topic, info.partition())).collect(Collectors.toSet());
    }

    @Override
    public Map<Integer, Long> seekTime(Seek seek) throws Exception {
        Map<Integer, Long> offsets = ask(Settings.consumer(bootstrap), seek.topic(), consumer -> {
            Map<TopicPartition, Long> times =
                    partitions(consumer, seek.topic()).stream().collect(Collectors.toMap(partition -> partition, partition -> seek.timestamp()));
            Map<Integer, Long> found = new TreeMap<>();
            consumer.offsetsForTimes(times).forEach((partition, start) -> found.put(partition.partition(), start == null ? -1 : start.offset()));
            return found;
        });
        Set<TopicPartition> starts = offsets.entrySet().stream().filter(e -> e.getValue() >= 0)
                .map(e -> new TopicPartition(seek.topic(), e.getKey())).collect(Collectors.toSet());
        if (starts.isEmpty()) {
            return offsets;
        }
        try (RecordFile.Writer out = new RecordFile.Writer(seek.out())) {
            KafkaReceiver.create(ReceiverOptions.<byte[], byte[]>create(Settings.consumer(bootstrap)).assignment(starts)
                    .addAssignListener(assigned -> assigned.forEach(partition -> partition.seekToTimestamp(seek.timestamp()))))
                    .receive().take(seek.count()).doOnNext(record -> {
                        try {
                            out.write(record);
                        } catch (IOException e) {
                            throw new UncheckedIOException(e);
                        }
                    }).blockLast(Duration.ofMillis(seek.timeoutMs()));
        }
        return offsets;
    }

    @Override
    public Map<Integer, Long> lag(String group, String topic) {
        Map<String, Object> config = Settings.consumer(bootstrap);
        config.put(ConsumerConfig.GROUP_ID_CONFIG, group);
        return ask(config, topic, consumer -> {
            Set<TopicPartition> partitions = partitions(consumer, topic);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            Map<Integer, Long> lag = new TreeMap<>();
            for (Map.Entry<TopicPartition, OffsetAndMetadata> committed : consumer.committed(partitions).entrySet()) {
                if (committed.getValue() != null) {
                    lag.put(committed.getKey().partition(), ends.get(committed.getKey()) - committed.getValue().offset());
                }
            }
            return lag;
        });
    }

    @Override
    public void close() {
    }
}
