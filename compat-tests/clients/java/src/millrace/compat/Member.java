package millrace.compat;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * One member of a consumer group, on a thread of its own. Between requests it goes on polling with all partitions paused,
 * which is how this client takes part in rebalances.
 */
final class Member implements ConsumerRebalanceListener {
    private static final Duration POLL = Duration.ofMillis(100);

    private final BlockingQueue<JsonObject> requests = new LinkedBlockingQueue<>();
    private final Answers answers;
    private final String bootstrap;
    private final JsonObject open;
    private final Thread thread;
    private volatile boolean stopping;

    // Everything below belongs to the member's thread.
    private KafkaConsumer<byte[], byte[]> consumer;
    private boolean closing;
    /** Offset after the last record written, for each assigned partition of which one was. */
    private final Map<TopicPartition, OffsetAndMetadata> written = new HashMap<>();
    /** Records that came without being asked for, in the order in which they came. */
    private final ArrayDeque<ConsumerRecord<byte[], byte[]>> kept = new ArrayDeque<>();

    Member(String bootstrap, JsonObject open, Answers answers) {
        this.bootstrap = bootstrap;
        this.open = open;
        this.answers = answers;
        this.thread = new Thread(this::run, "member-" + open.get("consumer").getAsString());
        thread.setDaemon(true);
        thread.start();
    }

    void submit(JsonObject request) {
        requests.add(request);
    }

    void stop() {
        stopping = true;
    }

    void join(long millis) throws InterruptedException {
        thread.join(millis);
    }

    private void run() {
        answers.answer(open, this::open);
        if (consumer == null) {
            refuseRest();
            return;
        }
        while (!closing && !stopping) {
            JsonObject request = requests.poll();
            if (request != null) {
                answers.answer(request, () -> step(request));
            } else {
                idle();
            }
        }
        if (!closing) {
            closing = true;
            consumer.close();
        }
    }

    /** The driver may have sent steps behind an open that failed. */
    private void refuseRest() {
        while (!stopping) {
            try {
                JsonObject request = requests.poll(POLL.toMillis(), TimeUnit.MILLISECONDS);
                if (request != null) {
                    answers.answer(request, () -> {
                        throw new IllegalStateException("the consumer could not be opened");
                    });
                }
            } catch (InterruptedException e) {
                return;
            }
        }
    }

    private JsonObject step(JsonObject request) throws Exception {
        String step = request.get("step").getAsString();
        return switch (step) {
            case "consume" -> consume(request);
            case "commit" -> commit();
            case "consumer-close" -> {
                closing = true;
                consumer.close();
                yield new JsonObject();
            }
            default -> throw new Answers.Unsupported("this agent has no step " + step);
        };
    }

    private JsonObject open() throws Answers.Unsupported {
        Map<String, Object> config = new HashMap<>();
        config.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        config.put(ConsumerConfig.GROUP_ID_CONFIG, open.get("group").getAsString());
        config.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false);
        config.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        config.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_uncommitted");
        if (open.has("instance")) {
            config.put(ConsumerConfig.GROUP_INSTANCE_ID_CONFIG, open.get("instance").getAsString());
        }
        String strategy = open.has("strategy") ? open.get("strategy").getAsString() : null;
        String protocol = open.has("protocol") ? open.get("protocol").getAsString() : "classic";
        config.put(ConsumerConfig.GROUP_PROTOCOL_CONFIG, protocol);
        if (protocol.equals("consumer")) {
            // KIP-848: the broker assigns, by an assignor of its own that the member may name.
            if (strategy != null) {
                config.put(ConsumerConfig.GROUP_REMOTE_ASSIGNOR_CONFIG, strategy);
            }
        } else {
            config.put(ConsumerConfig.PARTITION_ASSIGNMENT_STRATEGY_CONFIG, assignor(strategy == null ? "range" : strategy).getName());
            config.put(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG, 10_000);
            config.put(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG, 500);
        }
        consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.subscribe(List.of(open.get("topic").getAsString()), this);
        return new JsonObject();
    }

    private static Class<?> assignor(String strategy) throws Answers.Unsupported {
        return switch (strategy) {
            case "range" -> RangeAssignor.class;
            case "roundrobin" -> RoundRobinAssignor.class;
            case "sticky" -> StickyAssignor.class;
            case "cooperative-sticky" -> CooperativeStickyAssignor.class;
            default -> throw new Answers.Unsupported("the client has no assignor " + strategy);
        };
    }

    private void idle() {
        try {
            consumer.pause(consumer.assignment());
            consumer.poll(POLL).forEach(kept::add);
        } catch (RuntimeException e) {
            System.err.println("poll between requests: " + e);
            try {
                Thread.sleep(POLL.toMillis());
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private JsonObject consume(JsonObject request) throws Exception {
        long wanted = BrokerSteps.number(request, "count", 0);
        long deadline = System.nanoTime() + BrokerSteps.number(request, "timeout_ms", BrokerSteps.STEP_MS) * 1_000_000;
        long count = 0;
        if (wanted > 0) {
            consumer.resume(consumer.paused());
            try (RecordFile.Writer out = new RecordFile.Writer(Path.of(request.get("out").getAsString()))) {
                for (ConsumerRecord<byte[], byte[]> record = kept.poll(); record != null; record = kept.poll()) {
                    write(out, record);
                    count++;
                }
                while (count < wanted && !stopping) {
                    long left = (deadline - System.nanoTime()) / 1_000_000;
                    if (left <= 0) {
                        break;
                    }
                    for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(Math.min(left, 200)))) {
                        write(out, record);
                        count++;
                    }
                }
            }
        }
        JsonArray assignment = new JsonArray();
        TreeSet<Integer> partitions = new TreeSet<>();
        consumer.assignment().forEach(tp -> partitions.add(tp.partition()));
        partitions.forEach(assignment::add);
        JsonObject results = new JsonObject();
        results.addProperty("count", count);
        results.add("assignment", assignment);
        return results;
    }

    private void write(RecordFile.Writer out, ConsumerRecord<byte[], byte[]> record) throws Exception {
        out.write(record);
        written.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
    }

    /** A commit during a rebalance is refused until poll has finished it; the revoked partitions were committed then. */
    private JsonObject commit() {
        long deadline = System.nanoTime() + BrokerSteps.STEP_MS * 1_000_000;
        while (true) {
            try {
                consumer.commitSync(Map.copyOf(written));
                return new JsonObject();
            } catch (RebalanceInProgressException e) {
                if (System.nanoTime() > deadline) {
                    throw e;
                }
                consumer.pause(consumer.assignment());
                consumer.poll(POLL).forEach(kept::add);
            }
        }
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

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        System.err.println("lost " + partitions);
        forget(partitions);
    }

    private void forget(Collection<TopicPartition> partitions) {
        partitions.forEach(written::remove);
        kept.removeIf(record -> partitions.contains(new TopicPartition(record.topic(), record.partition())));
    }
}
