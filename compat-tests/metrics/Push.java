import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** Produces for some seconds and pushes its own metrics, as every Java client does that is asked to. */
public class Push {
    public static void main(String[] args) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", args[0]);
        p.put("client.id", "pusher");
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(p, new StringSerializer(), new StringSerializer())) {
            for (int i = 0; i < 40; i++) {
                producer.send(new ProducerRecord<>("pushed", "k", "v")).get();
                Thread.sleep(100);
            }
            System.out.println(producer.clientInstanceId(java.time.Duration.ofSeconds(5)));
        }
    }
}
