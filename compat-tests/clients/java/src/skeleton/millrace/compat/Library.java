package millrace.compat;

import java.nio.file.Path;
import java.util.Collection;
import java.util.List;
import java.util.Map;

/**
 * A library under test: one call for each step of the scenario. An adapter implements a step with the library's own calls
 * only; a step that it does not implement is answered as one that the library has no call for.
 */
interface Library extends AutoCloseable {
    /**
     * Who speaks, and what its records cannot have; the fields are those of the protocol's hello line, and null leaves one
     * out.
     */
    record Hello(String client, String version, List<String> cannot, List<String> codecs, String noCommitOnRevoke, String note) {
    }

    record Produce(String topic, Path file, String codec, boolean idempotent, String acks, int timeoutMs) {
        /** Without sequence numbers a retry could overtake a later request. */
        int inFlight() {
            return idempotent ? 5 : 1;
        }
    }

    /** How many records were acknowledged, and the highest offset of each partition. */
    record Produced(long count, Map<Integer, Long> offsets) {
    }

    /** A member to be opened; instance and strategy may be null. */
    record Membership(String consumer, String group, String topic, String instance, String strategy, String protocol) {
        boolean nextGeneration() {
            return protocol.equals("consumer");
        }
    }

    record Seek(String topic, long timestamp, long count, Path out, long timeoutMs) {
    }

    record PartitionState(int id, int leader, Collection<Integer> replicas, Collection<Integer> isr) {
    }

    record GroupState(String state, int members) {
    }

    Hello hello();

    default void createTopic(String topic, int partitions, Map<String, String> configs) throws Exception {
        throw none();
    }

    Produced produce(Produce order) throws Exception;

    /** Opens a member and returns at once; called on the thread that will call the member. */
    GroupMember open(Membership membership) throws Exception;

    /** The offset found in each partition, -1 where there is none. */
    default Map<Integer, Long> seekTime(Seek seek) throws Exception {
        throw none();
    }

    default List<PartitionState> describeTopic(String topic) throws Exception {
        throw none();
    }

    /** Values by name; null for a hidden one. */
    default Map<String, String> describeConfigs(String topic) throws Exception {
        throw none();
    }

    default GroupState describeGroup(String group) throws Exception {
        throw none();
    }

    /** Log end minus committed offset of each partition that has a commit. */
    default Map<Integer, Long> lag(String group, String topic) throws Exception {
        throw none();
    }

    default void deleteTopic(String topic) throws Exception {
        throw none();
    }

    default void deleteGroup(String group) throws Exception {
        throw none();
    }

    /** The answer of a step without a call. */
    default Answers.Unsupported none() {
        return new Answers.Unsupported(hello().client() + " has no call for it");
    }

    @Override
    void close();
}
