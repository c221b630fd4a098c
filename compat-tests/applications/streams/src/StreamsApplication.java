import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;

/**
 * Two applications: "reverse" turns every value around and keeps no state; "count" counts the values' first words by minute,
 * which makes a repartition topic and a changelog. Started with: KIND BOOTSTRAP APPLICATION-ID IN OUT STATE-DIR.
 */
public final class StreamsApplication {
    private StreamsApplication() {
    }

    public static void main(String[] args) {
        Properties config = new Properties();
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[1]);
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, args[2]);
        config.put(StreamsConfig.STATE_DIR_CONFIG, args[5]);
        config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.AT_LEAST_ONCE);
        config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 200);
        config.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        // Records of the repartition topic that are committed are deleted this often.
        config.put("repartition.purge.interval.ms", 500);
        config.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        // A member that was killed is missed soon.
        config.put(StreamsConfig.consumerPrefix("session.timeout.ms"), 6000);
        config.put(StreamsConfig.consumerPrefix("heartbeat.interval.ms"), 500);

        KafkaStreams streams = new KafkaStreams(args[0].equals("count") ? count(args[3], args[4]) : reverse(args[3], args[4]), config);
        streams.setUncaughtExceptionHandler(e -> {
            e.printStackTrace();
            return StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.setStateListener((now, before) -> {
            System.out.println("state " + now);
            if (now == KafkaStreams.State.ERROR || (now == KafkaStreams.State.NOT_RUNNING && before == KafkaStreams.State.PENDING_ERROR)) {
                Runtime.getRuntime().halt(1);
            }
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(20))));
        streams.start();
    }

    private static Topology reverse(String in, String out) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(in, Consumed.with(Serdes.ByteArray(), Serdes.String()))
                .mapValues(value -> new StringBuilder(value).reverse().toString())
                .to(out, Produced.with(Serdes.ByteArray(), Serdes.String()));
        return builder.build();
    }

    private static Topology count(String in, String out) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(in, Consumed.with(Serdes.ByteArray(), Serdes.String()))
                .groupBy((key, value) -> value.split(" ", 2)[0], Grouped.with("words", Serdes.String(), Serdes.String()))
                .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMinutes(1), Duration.ofDays(1)))
                .count(Materialized.as("counts"))
                .toStream((window, count) -> window.key() + "@" + window.window().start())
                .mapValues(count -> Long.toString(count))
                .to(out, Produced.with(Serdes.String(), Serdes.String()));
        return builder.build();
    }
}
