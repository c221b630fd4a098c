package millrace.compat;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/**
 * The agent of Apache Kafka's own Java client: carries out the steps that the driver sends and reports what the client
 * said. It decides nothing and checks nothing. The protocol is compat-tests/PROTOCOL.md.
 */
public final class Agent {
    private final Answers answers = new Answers(System.out);
    private final Map<String, Member> members = new HashMap<>();
    private final ExecutorService steps = Executors.newSingleThreadExecutor();
    private final String bootstrap;

    private Agent(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    public static void main(String[] args) throws Exception {
        String bootstrap = null;
        for (int i = 0; i + 1 < args.length; i += 2) {
            if (args[i].equals("--bootstrap")) {
                bootstrap = args[i + 1];
            } else if (!args[i].equals("--dir")) {
                throw new IllegalArgumentException("unknown flag " + args[i]);
            }
        }
        if (bootstrap == null) {
            throw new IllegalArgumentException("--bootstrap HOST:PORT is missing");
        }
        new Agent(bootstrap).serve();
        // Threads of a client that could not be closed in time must not keep the process alive.
        System.exit(0);
    }

    private void serve() throws Exception {
        hello();
        try (BrokerSteps broker = new BrokerSteps(bootstrap)) {
            BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                if (line.isBlank()) {
                    continue;
                }
                JsonObject request = JsonParser.parseString(line).getAsJsonObject();
                if (request.has("consumer")) {
                    toMember(request);
                } else {
                    steps.execute(() -> answers.answer(request, () -> broker.run(request)));
                }
            }
            steps.shutdownNow();
            for (Member member : members.values()) {
                member.stop();
            }
            for (Member member : members.values()) {
                member.join(TimeUnit.SECONDS.toMillis(5));
            }
        }
    }

    private void toMember(JsonObject request) {
        String name = request.get("consumer").getAsString();
        String step = request.get("step").getAsString();
        Member member = members.get(name);
        if (step.equals("consumer-open")) {
            if (member != null) {
                answers.answer(request, () -> {
                    throw new IllegalStateException("consumer " + name + " is open already");
                });
                return;
            }
            members.put(name, new Member(bootstrap, request, answers));
            return;
        }
        if (member == null) {
            answers.answer(request, () -> {
                throw new IllegalStateException("no consumer " + name + " is open");
            });
            return;
        }
        if (step.equals("consumer-close")) {
            members.remove(name);
        }
        member.submit(request);
    }

    private void hello() throws IOException {
        Properties version = new Properties();
        try (InputStream in = Agent.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            version.load(in);
        }
        JsonObject hello = new JsonObject();
        hello.addProperty("client", "Java kafka-clients");
        hello.addProperty("version", version.getProperty("version"));
        hello.add("cannot", new JsonArray());
        JsonObject line = new JsonObject();
        line.add("hello", hello);
        answers.line(line);
    }
}
