package millrace.compat;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.file.Path;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;

/** The protocol's record files, for clients whose records have no headers. */
final class RecordFile {
    private static final int BUFFER = 1 << 20;

    private RecordFile() {
    }

    /** Reads the records to produce, in the file's order. */
    static final class Reader implements AutoCloseable {
        private final DataInputStream in;
        private final String topic;

        Reader(Path file, String topic) throws IOException {
            this.in = new DataInputStream(new BufferedInputStream(new FileInputStream(file.toFile()), BUFFER));
            this.topic = topic;
        }

        /** The next record, or null at the end of the file. A file that ends inside a record is an error. */
        ProducerRecord<byte[], byte[]> next() throws IOException {
            in.mark(1);
            if (in.read() < 0) {
                return null;
            }
            in.reset();
            int partition = in.readInt();
            long timestamp = in.readLong();
            byte[] key = bytes();
            byte[] value = bytes();
            if (in.readInt() != 0) {
                throw new IOException("a record with headers, which this client does not have");
            }
            return Calls.record(topic, partition < 0 ? null : partition, timestamp < 0 ? null : timestamp, key, value);
        }

        private byte[] bytes() throws IOException {
            int length = in.readInt();
            if (length < 0) {
                return null;
            }
            byte[] read = in.readNBytes(length);
            if (read.length != length) {
                throw new IOException("the record file ends inside a record");
            }
            return read;
        }

        @Override
        public void close() throws IOException {
            in.close();
        }
    }

    /** Appends records that were consumed. */
    static final class Writer implements AutoCloseable {
        private final DataOutputStream out;

        Writer(Path file) throws IOException {
            this.out = new DataOutputStream(new BufferedOutputStream(new FileOutputStream(file.toFile(), true), BUFFER));
        }

        void write(ConsumerRecord<byte[], byte[]> record) throws Exception {
            write(record.partition(), record.offset(), Calls.timestamp(record), record.key(), record.value());
        }

        void write(int partition, long offset, long timestamp, byte[] key, byte[] value) throws IOException {
            out.writeInt(partition);
            out.writeLong(offset);
            out.writeLong(timestamp);
            bytes(key);
            bytes(value);
            out.writeInt(0);
        }

        private void bytes(byte[] value) throws IOException {
            if (value == null) {
                out.writeInt(-1);
                return;
            }
            out.writeInt(value.length);
            out.write(value);
        }

        @Override
        public void close() throws IOException {
            out.close();
        }
    }
}
