package millrace.tools;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.utils.internals.Exit;

import org.slf4j.LoggerFactory;

import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * Runs many of Kafka's command-line tools in one virtual machine, several at a time.
 *
 * A line of standard input is a request, a line of standard output an answer to one, in the order in which they are done:
 *
 *   {"id":1,"run":CLASS,"args":[...],"stdin":TEXT,"limit":MS}   answered when the command has ended
 *   {"id":2,"peek":1}                                            what command 1 has printed so far
 *   {"id":3,"stop":1}                                            what SIGTERM does: hooks, then command 1 is over
 *
 * Answers are {"id":1,"exit":CODE,"out":TEXT,"err":TEXT,"stopped":BOOL,"hung":BOOL}. A command is a main method. Its
 * System.out, System.err and System.in are its own, and so are those of the threads that it starts. Exit.exit ends the
 * command and not the machine: the first code counts, and what the thread prints on its way out does not. Hooks for the
 * end of the process run at the end of the command. A command that has not ended after its limit is stopped, and called
 * hung if it then still runs thirty seconds later.
 */
public final class Runner {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final InheritableThreadLocal<Command> CURRENT = new InheritableThreadLocal<>();
    private static final Map<Long, Command> RUNNING = new ConcurrentHashMap<>();
    private static final long PATIENCE_MS = 30_000;

    private static final int SIGTERM = 143;

    private static PrintStream answers;
    private static PrintStream stray;

    /** What Exit.exit throws in the thread that called it. */
    private static final class Ended extends Error {
        private static final long serialVersionUID = 1L;

        private Ended() {
            super("the command has ended", null, false, false);
        }
    }

    private static final class Command {
        private final ByteArrayOutputStream out = new ByteArrayOutputStream();
        private final ByteArrayOutputStream err = new ByteArrayOutputStream();
        private final InputStream in;
        private final CountDownLatch ended = new CountDownLatch(1);
        // Its own: tools keep counts in static fields.
        private final ClassLoader loader = new ToolLoader(Runner.class.getClassLoader());
        private final List<Runnable> hooks = new ArrayList<>();
        private final List<Thread> leaving = new ArrayList<>();
        private Integer code;
        private boolean stopped;

        private Command(String stdin) {
            in = new ByteArrayInputStream(stdin.getBytes(StandardCharsets.UTF_8));
        }

        private synchronized void end(int c) {
            if (code == null) {
                code = c;
            }
            ended.countDown();
        }

        private synchronized void exit(int c) {
            leaving.add(Thread.currentThread());
            end(c);
        }

        private synchronized boolean silent() {
            return leaving.contains(Thread.currentThread());
        }

        private void stop() {
            synchronized (this) {
                stopped = true;
                if (code == null) {
                    code = SIGTERM;
                }
            }
            runHooks();
            end(SIGTERM);
        }

        /** Each hook runs once, in a thread of the command's: those given to Exit, and those given to the machine. */
        private void runHooks() {
            List<Thread> threads = machineHooks(loader);
            synchronized (this) {
                for (Runnable hook : hooks) {
                    threads.add(new Thread(() -> {
                        CURRENT.set(this);
                        hook.run();
                    }, "hook"));
                }
                hooks.clear();
            }
            for (Thread t : threads) {
                t.setDaemon(true);
                t.start();
            }
            for (Thread t : threads) {
                try {
                    t.join(PATIENCE_MS);
                } catch (InterruptedException e) {
                    return;
                }
            }
        }

        private String text(ByteArrayOutputStream b) {
            synchronized (b) {
                return b.toString(StandardCharsets.UTF_8);
            }
        }
    }

    /**
     * Takes the hooks that a command has given to the machine itself. The table of them is not open to programs (the
     * runner is started with --add-opens for it); a thread belongs to the command whose class loader it inherited.
     */
    private static List<Thread> machineHooks(ClassLoader loader) {
        List<Thread> all = new ArrayList<>();
        try {
            Class<?> table = Class.forName("java.lang.ApplicationShutdownHooks");
            Field field = table.getDeclaredField("hooks");
            field.setAccessible(true);
            synchronized (table) {
                for (Object t : ((Map<?, ?>) field.get(null)).keySet()) {
                    if (((Thread) t).getContextClassLoader() == loader) {
                        all.add((Thread) t);
                    }
                }
            }
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException("the machine keeps its shutdown hooks elsewhere", e);
        }
        all.removeIf(t -> !Runtime.getRuntime().removeShutdownHook(t));
        return all;
    }

    /** Bytes that go to the command of the thread that writes them. */
    private static final class Outward extends OutputStream {
        private final boolean error;

        private Outward(boolean error) {
            this.error = error;
        }

        @Override
        public void write(int b) {
            write(new byte[] {(byte) b}, 0, 1);
        }

        @Override
        public void write(byte[] b, int off, int len) {
            Command c = CURRENT.get();
            if (c == null) {
                stray.write(b, off, len);
            } else if (!c.silent()) {
                ByteArrayOutputStream to = error ? c.err : c.out;
                synchronized (to) {
                    to.write(b, off, len);
                }
            }
        }
    }

    private static final class Inward extends InputStream {
        @Override
        public int read() throws IOException {
            Command c = CURRENT.get();
            return c == null ? -1 : c.in.read();
        }

        @Override
        public int read(byte[] b, int off, int len) throws IOException {
            Command c = CURRENT.get();
            return c == null ? -1 : c.in.read(b, off, len);
        }

        @Override
        public int available() throws IOException {
            Command c = CURRENT.get();
            return c == null ? 0 : c.in.available();
        }
    }

    private Runner() {
    }

    public static void main(String[] args) throws Exception {
        answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        stray = System.err;
        LoggerFactory.getILoggerFactory();
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        System.setOut(new PrintStream(new Outward(false), true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(new Outward(true), true, StandardCharsets.UTF_8));
        System.setIn(new Inward());
        Exit.Procedure procedure = (code, message) -> {
            Command c = CURRENT.get();
            if (c == null) {
                throw new IllegalStateException("exit " + code + " by a thread of no command");
            }
            if (message != null) {
                System.err.println(message);
            }
            c.exit(code);
            throw new Ended();
        };
        Exit.setExitProcedure(procedure);
        Exit.setHaltProcedure(procedure);
        Exit.setShutdownHookAdder((name, hook) -> {
            Command c = CURRENT.get();
            synchronized (c) {
                c.hooks.add(hook);
            }
        });
        Thread.setDefaultUncaughtExceptionHandler((thread, e) -> {
            if (!(e instanceof Ended)) {
                System.err.print("Exception in thread \"" + thread.getName() + "\" ");
                e.printStackTrace();
            }
        });
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            JsonNode r = JSON.readTree(line);
            long id = r.get("id").asLong();
            if (r.has("run")) {
                Command c = new Command(r.path("stdin").asText(""));
                RUNNING.put(id, c);
                begin("command", () -> run(id, c, r));
            } else if (r.has("peek")) {
                answer(id, RUNNING.get(r.get("peek").asLong()), false);
            } else {
                Command c = RUNNING.get(r.get("stop").asLong());
                begin("stop", () -> {
                    if (c != null) {
                        c.stop();
                    }
                    answer(id, c, false);
                });
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private static Thread begin(String name, Runnable r) {
        Thread t = new Thread(r, name);
        t.setDaemon(true);
        t.start();
        return t;
    }

    private static void run(long id, Command c, JsonNode r) {
        begin("main", () -> {
            CURRENT.set(c);
            Thread.currentThread().setContextClassLoader(c.loader);
            try {
                List<String> args = new ArrayList<>();
                r.path("args").forEach(a -> args.add(a.asText()));
                Method main = c.loader.loadClass(r.get("run").asText()).getMethod("main", String[].class);
                main.invoke(null, (Object) args.toArray(new String[0]));
                c.end(0);
            } catch (InvocationTargetException e) {
                if (!(e.getCause() instanceof Ended)) {
                    System.err.print("Exception in thread \"main\" ");
                    e.getCause().printStackTrace();
                }
                c.end(1);
            } catch (ReflectiveOperationException | RuntimeException e) {
                System.err.println("the runner: " + e);
                c.end(1);
            }
        });
        boolean hung = false;
        try {
            if (!c.ended.await(r.path("limit").asLong(60_000), TimeUnit.MILLISECONDS)) {
                c.stop();
                hung = !c.ended.await(PATIENCE_MS, TimeUnit.MILLISECONDS);
            }
        } catch (InterruptedException e) {
            hung = true;
        }
        c.runHooks();
        answer(id, c, hung);
    }

    private static void answer(long id, Command c, boolean hung) {
        ObjectNode a = JSON.createObjectNode();
        a.put("id", id);
        if (c != null) {
            synchronized (c) {
                a.put("exit", c.code == null ? -1 : c.code);
                a.put("stopped", c.stopped);
            }
            a.put("hung", hung);
            a.put("out", c.text(c.out));
            a.put("err", c.text(c.err));
        }
        synchronized (answers) {
            answers.println(a);
        }
    }
}
