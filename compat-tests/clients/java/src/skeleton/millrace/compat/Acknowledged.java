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
    public void onCompletion(RecordMetadata metadata, Exception exception) {
        if (exception != null) {
            failed(exception);
        } else {
            acknowledged(metadata.partition(), metadata.offset());
        }
    }

    /** The offset is -1 where none was told (acks=0). */
    synchronized void acknowledged(int partition, long offset) {
        count++;
        if (offset >= 0) {
            offsets.merge(partition, offset, Math::max);
        }
    }

    synchronized void failed(Throwable cause) {
        if (failure == null) {
            failure = cause instanceof Exception ? (Exception) cause : new IllegalStateException(cause);
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
