package millrace.compat;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import java.nio.file.Path;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;

/** The steps that need no group member, from the protocol's words to the library's calls and back. */
final class Steps {
    static final long STEP_MS = 60_000;

    private final Library library;

    Steps(Library library) {
        this.library = library;
    }

    JsonObject run(JsonObject request) throws Exception {
        String step = string(request, "step");
        JsonObject results = new JsonObject();
        switch (step) {
            case "create-topic" -> {
                Map<String, String> configs = new HashMap<>();
                if (request.has("configs")) {
                    request.getAsJsonObject("configs").entrySet().forEach(e -> configs.put(e.getKey(), e.getValue().getAsString()));
                }
                library.createTopic(string(request, "topic"), request.get("partitions").getAsInt(), configs);
            }
            case "produce" -> {
                boolean idempotent = request.has("idempotent") && request.get("idempotent").getAsBoolean();
                Library.Produced produced = library.produce(new Library.Produce(string(request, "topic"), Path.of(string(request, "file")),
                        string(request, "codec"), idempotent, string(request, "acks", "all"), (int) number(request, "timeout_ms", STEP_MS)));
                results.addProperty("count", produced.count());
                if (!produced.offsets().isEmpty()) {
                    results.add("offsets", perPartition(produced.offsets()));
                }
            }
            case "seek-time" -> results.add("offsets", perPartition(library.seekTime(new Library.Seek(string(request, "topic"),
                    number(request, "timestamp", 0), number(request, "count", 0), Path.of(string(request, "out")),
                    number(request, "timeout_ms", STEP_MS)))));
            case "describe-topic" -> results.add("partitions", partitions(library.describeTopic(string(request, "topic"))));
            case "describe-configs" -> {
                JsonObject configs = new JsonObject();
                library.describeConfigs(string(request, "topic"))
                        .forEach((name, value) -> configs.add(name, value == null ? JsonNull.INSTANCE : new JsonPrimitive(value)));
                results.add("configs", configs);
            }
            case "describe-group" -> {
                Library.GroupState group = library.describeGroup(string(request, "group"));
                results.addProperty("state", group.state());
                results.addProperty("members", group.members());
            }
            case "lag" -> results.add("lag", perPartition(library.lag(string(request, "group"), string(request, "topic"))));
            case "delete-topic" -> library.deleteTopic(string(request, "topic"));
            case "delete-group" -> library.deleteGroup(string(request, "group"));
            default -> throw new Answers.Unsupported("this agent has no step " + step);
        }
        return results;
    }

    private static JsonArray partitions(Collection<Library.PartitionState> states) {
        JsonArray partitions = new JsonArray();
        states.stream().sorted((a, b) -> Integer.compare(a.id(), b.id())).forEach(state -> {
            JsonObject partition = new JsonObject();
            partition.addProperty("id", state.id());
            partition.addProperty("leader", state.leader());
            partition.add("replicas", numbers(state.replicas()));
            partition.add("isr", numbers(state.isr()));
            partitions.add(partition);
        });
        return partitions;
    }

    private static JsonArray numbers(Collection<Integer> values) {
        JsonArray array = new JsonArray();
        values.forEach(array::add);
        return array;
    }

    private static JsonObject perPartition(Map<Integer, Long> values) {
        JsonObject object = new JsonObject();
        values.forEach((partition, value) -> object.addProperty(Integer.toString(partition), value));
        return object;
    }

    /** A number of the request; a driver may leave out a zero. */
    static long number(JsonObject request, String field, long otherwise) {
        JsonElement given = request.get(field);
        return given == null ? otherwise : given.getAsLong();
    }

    static String string(JsonObject request, String field) {
        String value = string(request, field, null);
        if (value == null) {
            throw new IllegalArgumentException("the request has no " + field);
        }
        return value;
    }

    static String string(JsonObject request, String field, String otherwise) {
        JsonElement value = request.get(field);
        return value == null ? otherwise : value.getAsString();
    }
}
