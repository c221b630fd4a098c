import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.requests.DescribeLogDirsResponse;

/**
 * The AdminClient of 1.0, which speaks versions of requests that Kafka 4 refuses: DescribeConfigs 0, DescribeLogDirs 0. It
 * carries out its calls on a topic that is there and prints what it was told, one "name value" a line.
 * Started with: BOOTSTRAP TOPIC.
 */
public final class OldAdmin {
    private OldAdmin() {
    }

    public static void main(String[] args) throws Exception {
        String topic = args[1];
        Properties properties = new Properties();
        properties.put(AdminClientConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        try (AdminClient admin = AdminClient.create(properties)) {
            System.out.println("cluster.id " + admin.describeCluster().clusterId().get());
            Collection<Node> nodes = admin.describeCluster().nodes().get();
            Node node = nodes.iterator().next();
            System.out.println("node " + node.id() + " " + node.host() + ":" + node.port() + " of " + nodes.size());
            System.out.println("listed " + admin.listTopics().names().get().contains(topic));

            ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
            print(admin.describeConfigs(List.of(resource)).all().get().get(resource));
            // The older way to alter: what is not named goes back to its default.
            Config config = new Config(List.of(new ConfigEntry("retention.ms", "7200000")));
            admin.alterConfigs(Collections.singletonMap(resource, config)).all().get();
            print(admin.describeConfigs(List.of(resource)).all().get().get(resource));
            ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, node.idString());
            ConfigEntry id = admin.describeConfigs(List.of(broker)).all().get().get(broker).get("node.id");
            System.out.println("broker node.id " + id.value() + " read only " + id.isReadOnly());

            admin.createPartitions(Collections.singletonMap(topic, NewPartitions.increaseTo(5))).all().get();
            TopicDescription description = admin.describeTopics(List.of(topic)).all().get().get(topic);
            System.out.println("partitions " + description.partitions().size());

            Map<String, DescribeLogDirsResponse.LogDirInfo> directories = admin.describeLogDirs(List.of(node.id())).all().get().get(node.id());
            System.out.println("directories " + directories.size());
            Map<Integer, Long> sizes = new TreeMap<>();
            directories.values().forEach(directory -> {
                System.out.println("directory error " + directory.error);
                directory.replicaInfos.forEach((partition, replica) -> {
                    if (partition.topic().equals(topic)) {
                        sizes.put(partition.partition(), replica.size);
                    }
                });
            });
            sizes.forEach((partition, size) -> System.out.println("size " + partition + " " + size));

            admin.deleteTopics(List.of(topic)).all().get();
        }
    }

    private static void print(Config config) {
        for (String name : List.of("retention.ms", "segment.bytes")) {
            ConfigEntry entry = config.get(name);
            System.out.println("config " + name + " " + entry.value() + " default " + entry.isDefault());
        }
    }
}
