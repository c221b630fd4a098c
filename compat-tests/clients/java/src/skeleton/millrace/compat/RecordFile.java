package millrace.compat;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;

/** The protocol's record files: binary, big-endian, read and written as a stream. */
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
            int count = in.readInt();
            RecordHeaders headers = null;
            if (count > 0) {
                headers = new RecordHeaders();
                for (int i = 0; i < count; i++) {
                    String name = new String(bytes(), StandardCharsets.UTF_8);
                    headers.add(name, bytes());
                }
            }
            return new ProducerRecord<>(topic, partition < 0 ? null : partition, timestamp < 0 ? null : timestamp, key, value, headers);
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

        void write(ConsumerRecord<byte[], byte[]> record) throws IOException {
            out.writeInt(record.partition());
            out.writeLong(record.offset());
            out.writeLong(record.timestamp());
            bytes(record.key());
            bytes(record.value());
            Header[] headers = record.headers().toArray();
            out.writeInt(headers.length);
            for (Header header : headers) {
                bytes(header.key().getBytes(StandardCharsets.UTF_8));
                bytes(header.value());
            }
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
