package millrace.compat;

import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import kafka.api.FetchRequestBuilder;
import kafka.api.PartitionOffsetRequestInfo;
import kafka.cluster.Broker;
import kafka.common.ErrorMapping;
import kafka.common.TopicAndPartition;
import kafka.javaapi.FetchResponse;
import kafka.javaapi.OffsetRequest;
import kafka.javaapi.OffsetResponse;
import kafka.javaapi.PartitionMetadata;
import kafka.javaapi.TopicMetadataRequest;
import kafka.javaapi.consumer.SimpleConsumer;
import kafka.message.MessageAndOffset;
import org.apache.kafka.clients.producer.KafkaProducer;

/**
 * The producer of 0.8.2, and the SimpleConsumer of the same time, which knows no groups but those that ZooKeeper keeps.
 */
final class SimpleClients implements Library {
    private static final String ID = "simple";
    /** The largest record has to fit. */
    private static final int FETCH = 5 * 1024 * 1024;

    private final String bootstrap;
    private final SimpleConsumer consumer;

    SimpleClients(String bootstrap) {
        this.bootstrap = bootstrap;
        int colon = bootstrap.lastIndexOf(':');
        this.consumer = new SimpleConsumer(bootstrap.substring(0, colon), Integer.parseInt(bootstrap.substring(colon + 1)), 60_000, 1 << 20, ID);
    }

    @Override
    public Hello hello() {
        return new Hello("Java kafka-clients", Agent.jarVersion(KafkaProducer.class), List.of("headers", "any-timestamp"),
                List.of("none", "gzip", "snappy", "lz4"), null, "reads with the SimpleConsumer of kafka_2.11");
    }

    @Override
    public Produced produce(Produce order) throws Exception {
        return OldProducer.produce(bootstrap, order);
    }

    @Override
    public GroupMember open(Membership membership) throws Exception {
        throw new Answers.Unsupported("the SimpleConsumer knows no groups");
    }

    private List<PartitionMetadata> partitions(String topic) {
        return consumer.send(new TopicMetadataRequest(List.of(topic))).topicsMetadata().get(0).partitionsMetadata();
    }

    @Override
    public List<PartitionState> describeTopic(String topic) {
        return partitions(topic).stream()
                .map(p -> new PartitionState(p.partitionId(), p.leader() == null ? -1 : p.leader().id(), ids(p.replicas()), ids(p.isr())))
                .collect(Collectors.toList());
    }

    private static List<Integer> ids(List<Broker> brokers) {
        return brokers.stream().map(Broker::id).collect(Collectors.toList());
    }

    /** All there is has been written since 1970: what is asked for then is where each log starts. */
    @Override
    public Map<Integer, Long> seekTime(Seek seek) throws Exception {
        if (seek.timestamp() != 0) {
            throw new Answers.Unsupported("the client looks offsets up by the time of segments, not of records");
        }
        long deadline = System.nanoTime() + seek.timeoutMs() * 1_000_000;
        Map<TopicAndPartition, PartitionOffsetRequestInfo> asked = new HashMap<>();
        for (PartitionMetadata partition : partitions(seek.topic())) {
            asked.put(new TopicAndPartition(seek.topic(), partition.partitionId()),
                    new PartitionOffsetRequestInfo(kafka.api.OffsetRequest.EarliestTime(), 1));
        }
        OffsetResponse found = consumer.getOffsetsBefore(new OffsetRequest(asked, kafka.api.OffsetRequest.CurrentVersion(), ID));
        Map<Integer, Long> starts = new TreeMap<>();
        for (TopicAndPartition partition : asked.keySet()) {
            check(found.errorCode(partition.topic(), partition.partition()));
            starts.put(partition.partition(), found.offsets(partition.topic(), partition.partition())[0]);
        }
        Map<Integer, Long> next = new TreeMap<>(starts);
        long written = 0;
        try (RecordFile.Writer out = new RecordFile.Writer(seek.out())) {
            while (written < seek.count() && System.nanoTime() < deadline) {
                FetchRequestBuilder builder = new FetchRequestBuilder().clientId(ID).maxWait(200).minBytes(1);
                next.forEach((partition, offset) -> builder.addFetch(seek.topic(), partition, offset, FETCH));
                FetchResponse response = consumer.fetch(builder.build());
                for (int partition : starts.keySet()) {
                    check(response.errorCode(seek.topic(), partition));
                    for (MessageAndOffset message : response.messageSet(seek.topic(), partition)) {
                        if (message.offset() < next.get(partition)) {
                            continue; // the start of a compressed set
                        }
                        out.write(partition, message.offset(), -1, bytes(message.message().key()), bytes(message.message().payload()));
                        next.put(partition, message.nextOffset());
                        written++;
                    }
                }
            }
        }
        return starts;
    }

    private static void check(short code) throws Exception {
        if (code != ErrorMapping.NoError()) {
            throw new IllegalStateException("error " + code, ErrorMapping.exceptionFor(code));
        }
    }

    private static byte[] bytes(ByteBuffer buffer) {
        if (buffer == null) {
            return null;
        }
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return bytes;
    }

    @Override
    public void close() {
        consumer.close();
    }
}
