package millrace.compat;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The steps that need no group member. They run one after another, on one thread. */
final class BrokerSteps implements AutoCloseable {
    static final long STEP_MS = 60_000;

    private final String bootstrap;
    private Admin admin;

    BrokerSteps(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    JsonObject run(JsonObject request) throws Exception {
        String step = request.get("step").getAsString();
        return switch (step) {
            case "create-topic" -> createTopic(request);
            case "produce" -> produce(request);
            case "seek-time" -> seekTime(request);
            case "describe-topic" -> describeTopic(request);
            case "describe-configs" -> describeConfigs(request);
            case "describe-group" -> describeGroup(request);
            case "lag" -> lag(request);
            case "delete-topic" -> {
                admin().deleteTopics(List.of(string(request, "topic"))).all().get();
                yield new JsonObject();
            }
            case "delete-group" -> {
                admin().deleteConsumerGroups(List.of(string(request, "group"))).all().get();
                yield new JsonObject();
            }
            default -> throw new Answers.Unsupported("this agent has no step " + step);
        };
    }

    @Override
    public void close() {
        if (admin != null) {
            admin.close(Duration.ofSeconds(2));
        }
    }

    private Admin admin() {
        if (admin == null) {
            admin = Admin.create(Map.of(AdminClientConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap));
        }
        return admin;
    }

    private JsonObject createTopic(JsonObject request) throws Exception {
        NewTopic topic = new NewTopic(string(request, "topic"), request.get("partitions").getAsInt(), (short) 1);
        if (request.has("configs")) {
            Map<String, String> configs = new HashMap<>();
            request.getAsJsonObject("configs").entrySet().forEach(e -> configs.put(e.getKey(), e.getValue().getAsString()));
            topic.configs(configs);
        }
        admin().createTopics(List.of(topic)).all().get();
        return new JsonObject();
    }

    /** Counts acknowledgements; the client calls it on one thread, and close() ends that before it is read. */
    private static final class Acknowledged implements Callback {
        private final Map<Integer, Long> offsets = new TreeMap<>();
        private long count;
        private volatile Exception failure;

        @Override
        public void onCompletion(RecordMetadata metadata, Exception exception) {
            if (exception != null) {
                if (failure == null) {
                    failure = exception;
                }
                return;
            }
            count++;
            if (metadata.hasOffset()) {
                offsets.merge(metadata.partition(), metadata.offset(), Math::max);
            }
        }
    }

    private JsonObject produce(JsonObject request) throws Exception {
        boolean idempotent = request.has("idempotent") && request.get("idempotent").getAsBoolean();
        Map<String, Object> config = new HashMap<>();
        config.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        config.put(ProducerConfig.COMPRESSION_TYPE_CONFIG, string(request, "codec"));
        config.put(ProducerConfig.ENABLE_IDEMPOTENCE_CONFIG, idempotent);
        config.put(ProducerConfig.ACKS_CONFIG, request.has("acks") ? request.get("acks").getAsString() : "all");
        // Without sequence numbers a retry could overtake a later request.
        config.put(ProducerConfig.MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION, idempotent ? 5 : 1);
        config.put(ProducerConfig.LINGER_MS_CONFIG, 10);
        config.put(ProducerConfig.BATCH_SIZE_CONFIG, 128 * 1024);
        // A record may be larger than the broker's limit for a batch as long as it compresses well.
        config.put(ProducerConfig.MAX_REQUEST_SIZE_CONFIG, 4 * 1024 * 1024);
        config.put(ProducerConfig.BUFFER_MEMORY_CONFIG, 64L * 1024 * 1024);
        int timeout = (int) number(request, "timeout_ms", STEP_MS);
        config.put(ProducerConfig.DELIVERY_TIMEOUT_MS_CONFIG, timeout);
        config.put(ProducerConfig.MAX_BLOCK_MS_CONFIG, timeout);
        // The client wants a delivery to have time for at least one request and its linger.
        config.put(ProducerConfig.REQUEST_TIMEOUT_MS_CONFIG, timeout / 2);

        Acknowledged acknowledged = new Acknowledged();
        try (RecordFile.Reader file = new RecordFile.Reader(Path.of(string(request, "file")), string(request, "topic"));
                KafkaProducer<byte[], byte[]> producer =
                        new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
            ProducerRecord<byte[], byte[]> record;
            while (acknowledged.failure == null && (record = file.next()) != null) {
                producer.send(record, acknowledged);
            }
            producer.flush();
        }
        if (acknowledged.failure != null) {
            throw acknowledged.failure;
        }
        JsonObject results = new JsonObject();
        results.addProperty("count", acknowledged.count);
        if (!acknowledged.offsets.isEmpty()) {
            results.add("offsets", perPartition(acknowledged.offsets));
        }
        return results;
    }

    private JsonObject seekTime(JsonObject request) throws Exception {
        String topic = string(request, "topic");
        long timestamp = number(request, "timestamp", 0);
        long wanted = number(request, "count", 0);
        long deadline = System.nanoTime() + number(request, "timeout_ms", STEP_MS) * 1_000_000;
        Map<String, Object> config = new HashMap<>();
        config.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        config.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false);
        config.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "none");

        Map<Integer, Long> offsets = new TreeMap<>();
        try (Consumer<byte[], byte[]> consumer =
                        new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
                RecordFile.Writer out = new RecordFile.Writer(Path.of(string(request, "out")))) {
            Map<TopicPartition, Long> times = new HashMap<>();
            for (PartitionInfo info : consumer.partitionsFor(topic)) {
                times.put(new TopicPartition(topic, info.partition()), timestamp);
            }
            Map<TopicPartition, Long> starts = new HashMap<>();
            for (Map.Entry<TopicPartition, OffsetAndTimestamp> found : consumer.offsetsForTimes(times).entrySet()) {
                OffsetAndTimestamp start = found.getValue();
                offsets.put(found.getKey().partition(), start == null ? -1 : start.offset());
                if (start != null) {
                    starts.put(found.getKey(), start.offset());
                }
            }
            consumer.assign(starts.keySet());
            starts.forEach(consumer::seek);
            long written = 0;
            while (written < wanted && !starts.isEmpty() && System.nanoTime() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    out.write(record);
                    written++;
                }
            }
        }
        JsonObject results = new JsonObject();
        results.add("offsets", perPartition(offsets));
        return results;
    }

    private JsonObject describeTopic(JsonObject request) throws Exception {
        String topic = string(request, "topic");
        TopicDescription description = admin().describeTopics(List.of(topic)).allTopicNames().get().get(topic);
        List<TopicPartitionInfo> infos = new ArrayList<>(description.partitions());
        infos.sort(Comparator.comparingInt(TopicPartitionInfo::partition));
        JsonArray partitions = new JsonArray();
        for (TopicPartitionInfo info : infos) {
            JsonObject partition = new JsonObject();
            partition.addProperty("id", info.partition());
            partition.addProperty("leader", info.leader() == null ? -1 : info.leader().id());
            partition.add("replicas", ids(info.replicas()));
            partition.add("isr", ids(info.isr()));
            partitions.add(partition);
        }
        JsonObject results = new JsonObject();
        results.add("partitions", partitions);
        return results;
    }

    private JsonObject describeConfigs(JsonObject request) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, string(request, "topic"));
        JsonObject configs = new JsonObject();
        for (ConfigEntry entry : admin().describeConfigs(List.of(resource)).all().get().get(resource).entries()) {
            configs.add(entry.name(), entry.value() == null ? JsonNull.INSTANCE : new JsonPrimitive(entry.value()));
        }
        JsonObject results = new JsonObject();
        results.add("configs", configs);
        return results;
    }

    private JsonObject describeGroup(JsonObject request) throws Exception {
        String group = string(request, "group");
        ConsumerGroupDescription description = admin().describeConsumerGroups(List.of(group)).all().get().get(group);
        JsonObject results = new JsonObject();
        results.addProperty("state", description.groupState().toString());
        results.addProperty("members", description.members().size());
        return results;
    }

    private JsonObject lag(JsonObject request) throws Exception {
        String topic = string(request, "topic");
        Map<TopicPartition, OffsetSpec> ends = new HashMap<>();
        Map<TopicPartition, Long> committed = new HashMap<>();
        Map<TopicPartition, OffsetAndMetadata> commits =
                admin().listConsumerGroupOffsets(string(request, "group")).partitionsToOffsetAndMetadata().get();
        for (Map.Entry<TopicPartition, OffsetAndMetadata> commit : commits.entrySet()) {
            if (commit.getKey().topic().equals(topic) && commit.getValue() != null) {
                ends.put(commit.getKey(), OffsetSpec.latest());
                committed.put(commit.getKey(), commit.getValue().offset());
            }
        }
        Map<Integer, Long> lag = new TreeMap<>();
        for (Map.Entry<TopicPartition, ListOffsetsResult.ListOffsetsResultInfo> end : admin().listOffsets(ends).all().get().entrySet()) {
            lag.put(end.getKey().partition(), end.getValue().offset() - committed.get(end.getKey()));
        }
        JsonObject results = new JsonObject();
        results.add("lag", perPartition(lag));
        return results;
    }

    private static JsonArray ids(List<Node> nodes) {
        JsonArray ids = new JsonArray();
        nodes.forEach(node -> ids.add(node.id()));
        return ids;
    }

    private static JsonObject perPartition(Map<Integer, Long> values) {
        JsonObject object = new JsonObject();
        values.forEach((partition, value) -> object.addProperty(Integer.toString(partition), value));
        return object;
    }

    /** A number of the request; a driver may leave out a zero. */
    static long number(JsonObject request, String field, long otherwise) {
        JsonElement given = request.get(field);
        return given == null ? otherwise : given.getAsLong();
    }

    private static String string(JsonObject request, String field) {
        JsonElement value = request.get(field);
        if (value == null) {
            throw new IllegalArgumentException("the request has no " + field);
        }
        return value.getAsString();
    }
}
