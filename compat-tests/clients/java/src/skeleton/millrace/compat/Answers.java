package millrace.compat;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonObject;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;

/** Standard output: one JSON object a line, from any thread. */
final class Answers {
    /** A step; it returns its results, or an empty object. */
    interface Step {
        JsonObject run() throws Exception;
    }

    /** Thrown by a step that this client has no call for. */
    static final class Unsupported extends Exception {
        private static final long serialVersionUID = 1;

        Unsupported(String why) {
            super(why);
        }
    }

    private static final Gson GSON = new GsonBuilder().serializeNulls().disableHtmlEscaping().create();

    private final PrintStream out;

    Answers(PrintStream out) {
        this.out = new PrintStream(out, false, StandardCharsets.UTF_8);
    }

    synchronized void line(JsonObject object) {
        out.print(GSON.toJson(object) + "\n");
        out.flush();
    }

    /** Runs the step and answers the request with what came of it. */
    void answer(JsonObject request, Step step) {
        JsonObject answer = new JsonObject();
        answer.add("id", request.get("id"));
        try {
            JsonObject results = step.run();
            answer.addProperty("ok", true);
            results.entrySet().forEach(e -> answer.add(e.getKey(), e.getValue()));
        } catch (Unsupported e) {
            answer.addProperty("unsupported", e.getMessage());
        } catch (Exception e) {
            Throwable cause = e;
            while ((cause instanceof ExecutionException || cause instanceof CompletionException) && cause.getCause() != null) {
                cause = cause.getCause();
            }
            System.err.println("step failed: " + request);
            cause.printStackTrace();
            answer.addProperty("ok", false);
            answer.addProperty("error", cause.toString());
        }
        line(answer);
    }
}
