package millrace.compat;

import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.RecordMetadata;

/** Counts acknowledgements and keeps the highest offset of each partition. */
final class Acknowledged implements Callback {
    private final Map<Integer, Long> offsets = new TreeMap<>();
    private long count;
    private volatile Exception failure;

    @Override
    public synchronized void onCompletion(RecordMetadata metadata, Exception exception) {
        if (exception != null) {
            if (failure == null) {
                failure = exception;
            }
            return;
        }
        count++;
        if (metadata.offset() >= 0) {
            offsets.merge(metadata.partition(), metadata.offset(), Math::max);
        }
    }

    /** Whether one record has failed, which fails the step: there is no use in sending more. */
    boolean failed() {
        return failure != null;
    }

    synchronized Library.Produced result() throws Exception {
        if (failure != null) {
            throw failure;
        }
        return new Library.Produced(count, new TreeMap<>(offsets));
    }
}
