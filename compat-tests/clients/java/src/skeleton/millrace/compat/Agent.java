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
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;

/**
 * The agent of a library of the Java world: carries out the steps that the driver sends and reports what the library
 * said. It decides nothing and checks nothing. The protocol is compat-tests/PROTOCOL.md; each library's folder has a Main
 * that serves its adapter.
 */
final class Agent {
    private final Answers answers = new Answers(System.out);
    private final Map<String, MemberThread> members = new HashMap<>();
    private final ExecutorService steps = Executors.newSingleThreadExecutor();
    private final Library library;

    private Agent(Library library) {
        this.library = library;
    }

    /** Reads the flags and serves until standard input ends; it does not return. */
    static void main(String[] args, Function<String, Library> make) throws Exception {
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
        try (Library library = make.apply(bootstrap)) {
            new Agent(library).serve();
        }
        // Threads of a client that could not be closed in time must not keep the process alive.
        System.exit(0);
    }

    /** The version of the kafka-clients on the class path. */
    static String kafkaVersion() {
        Properties version = new Properties();
        try (InputStream in = Agent.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            version.load(in);
        } catch (IOException e) {
            throw new IllegalStateException("reading the version of kafka-clients", e);
        }
        return version.getProperty("version");
    }

    /** The version in the name of the jar that a class comes from; not every library tells it in its manifest. */
    static String jarVersion(Class<?> of) {
        String path = of.getProtectionDomain().getCodeSource().getLocation().getPath();
        return path.substring(path.lastIndexOf('/') + 1).replaceFirst("^[a-z-]*-", "").replaceFirst("\\.jar$", "");
    }

    private void serve() throws Exception {
        hello();
        Steps broker = new Steps(library);
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
        for (MemberThread member : members.values()) {
            member.stop();
        }
        for (MemberThread member : members.values()) {
            member.join(TimeUnit.SECONDS.toMillis(5));
        }
    }

    private void toMember(JsonObject request) {
        String name = Steps.string(request, "consumer");
        String step = Steps.string(request, "step");
        MemberThread member = members.get(name);
        if (step.equals("consumer-open")) {
            if (member != null) {
                answers.answer(request, () -> {
                    throw new IllegalStateException("consumer " + name + " is open already");
                });
                return;
            }
            members.put(name, new MemberThread(library, request, answers));
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

    private void hello() {
        Library.Hello said = library.hello();
        JsonObject hello = new JsonObject();
        hello.addProperty("client", said.client());
        hello.addProperty("version", said.version());
        addWords(hello, "cannot", said.cannot());
        addWords(hello, "codecs", said.codecs());
        if (said.noCommitOnRevoke() != null) {
            hello.addProperty("no_commit_on_revoke", said.noCommitOnRevoke());
        }
        if (said.note() != null) {
            hello.addProperty("note", said.note());
        }
        JsonObject line = new JsonObject();
        line.add("hello", hello);
        answers.line(line);
    }

    private static void addWords(JsonObject hello, String field, List<String> words) {
        if (words != null) {
            JsonArray array = new JsonArray();
            words.forEach(array::add);
            hello.add(field, array);
        }
    }
}
