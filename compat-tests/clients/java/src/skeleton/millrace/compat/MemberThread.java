package millrace.compat;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import java.nio.file.Path;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** The thread of one group member: carries out its requests in their order and lets it idle between them. */
final class MemberThread {
    private final BlockingQueue<JsonObject> requests = new LinkedBlockingQueue<>();
    private final Library library;
    private final JsonObject open;
    private final Answers answers;
    private final Thread thread;
    private volatile boolean stopping;
    private boolean closed;
    private GroupMember member;

    MemberThread(Library library, JsonObject open, Answers answers) {
        this.library = library;
        this.open = open;
        this.answers = answers;
        this.thread = new Thread(this::run, "member-" + open.get("consumer").getAsString());
        thread.setDaemon(true);
        thread.start();
    }

    void submit(JsonObject request) {
        requests.add(request);
    }

    void stop() {
        stopping = true;
    }

    void join(long millis) throws InterruptedException {
        thread.join(millis);
    }

    private void run() {
        answers.answer(open, () -> {
            member = library.open(new Library.Membership(Steps.string(open, "consumer"), Steps.string(open, "group"),
                    Steps.string(open, "topic"), Steps.string(open, "instance", null), Steps.string(open, "strategy", null),
                    Steps.string(open, "protocol", "classic")));
            return new JsonObject();
        });
        try {
            while (!closed && !stopping) {
                // A member that could not be opened has no life between requests, but the driver may send it some.
                JsonObject request = member == null ? requests.poll(100, TimeUnit.MILLISECONDS) : requests.poll();
                if (request != null) {
                    answers.answer(request, () -> step(request));
                } else if (member != null) {
                    idle();
                }
            }
            if (member != null && !closed) {
                member.close();
            }
        } catch (Exception e) {
            e.printStackTrace();
        }
    }

    private void idle() throws InterruptedException {
        try {
            member.idle();
        } catch (InterruptedException e) {
            throw e;
        } catch (Exception e) {
            System.err.println("between requests: " + e);
            Thread.sleep(100);
        }
    }

    private JsonObject step(JsonObject request) throws Exception {
        if (member == null) {
            throw new IllegalStateException("the consumer could not be opened");
        }
        JsonObject results = new JsonObject();
        String step = Steps.string(request, "step");
        switch (step) {
            case "consume" -> {
                long wanted = Steps.number(request, "count", 0);
                long count = wanted == 0 ? 0
                        : member.consume(Path.of(Steps.string(request, "out")), wanted, Steps.number(request, "timeout_ms", Steps.STEP_MS));
                results.addProperty("count", count);
                JsonArray assignment = new JsonArray();
                new TreeSet<>(member.assignment()).forEach(assignment::add);
                results.add("assignment", assignment);
            }
            case "commit" -> member.commit();
            case "consumer-close" -> {
                closed = true;
                member.close();
            }
            default -> throw new Answers.Unsupported("this agent has no step " + step);
        }
        return results;
    }
}
