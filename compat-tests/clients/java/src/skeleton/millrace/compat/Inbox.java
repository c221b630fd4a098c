package millrace.compat;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/**
 * Stands between a library that pushes records and a driver that asks for them: what is pushed while a request runs is
 * written, the rest is kept for the next request. It also knows what a member owns and how far it has written. Safe for
 * any thread.
 */
final class Inbox {
    /** Offset after the last record written, for each owned partition of which one was. */
    private final Map<Integer, Long> written = new TreeMap<>();
    private final Set<Integer> owned = new TreeSet<>();
    private final ArrayDeque<ConsumerRecord<byte[], byte[]>> kept = new ArrayDeque<>();
    private RecordFile.Writer out;
    private long count;
    private long wanted;
    private IOException failure;

    /** A record from the library. Returns whether the running request still wants more. */
    synchronized boolean push(ConsumerRecord<byte[], byte[]> record) {
        if (out == null) {
            kept.add(record);
            return false;
        }
        write(record);
        return count < wanted;
    }

    private void write(ConsumerRecord<byte[], byte[]> record) {
        try {
            out.write(record);
        } catch (IOException e) {
            failure = e;
        }
        written.put(record.partition(), record.offset() + 1);
        if (++count >= wanted || failure != null) {
            notifyAll();
        }
    }

    synchronized void assigned(Collection<Integer> partitions) {
        owned.addAll(partitions);
    }

    /** Forgets partitions and what was kept of them; returns how far those were written. */
    synchronized Map<Integer, Long> revoked(Collection<Integer> partitions) {
        Map<Integer, Long> offsets = new HashMap<>();
        for (Integer partition : partitions) {
            owned.remove(partition);
            Long offset = written.remove(partition);
            if (offset != null) {
                offsets.put(partition, offset);
            }
        }
        kept.removeIf(record -> partitions.contains(record.partition()));
        return offsets;
    }

    synchronized Collection<Integer> owned() {
        return new TreeSet<>(owned);
    }

    synchronized Map<Integer, Long> written() {
        return new TreeMap<>(written);
    }

    /** Lets the library push between start and stop, and writes what comes. */
    long collect(Path file, long records, long timeoutMs, Runnable start, Runnable stop) throws Exception {
        long deadline = System.nanoTime() + timeoutMs * 1_000_000;
        synchronized (this) {
            count = 0;
            wanted = records;
            failure = null;
            out = new RecordFile.Writer(file);
            for (ConsumerRecord<byte[], byte[]> record = kept.poll(); record != null; record = kept.poll()) {
                write(record);
            }
        }
        start.run();
        try {
            synchronized (this) {
                while (count < wanted && failure == null) {
                    long left = (deadline - System.nanoTime()) / 1_000_000;
                    if (left <= 0) {
                        break;
                    }
                    wait(left);
                }
            }
        } finally {
            stop.run();
            synchronized (this) {
                out.close();
                out = null;
            }
        }
        if (failure != null) {
            throw failure;
        }
        return count;
    }
}
