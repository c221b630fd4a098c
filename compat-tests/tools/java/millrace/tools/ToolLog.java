package millrace.tools;

import org.slf4j.Logger;
import org.slf4j.helpers.FormattingTuple;
import org.slf4j.helpers.MarkerIgnoringBase;
import org.slf4j.helpers.MessageFormatter;
import org.slf4j.helpers.NOPLogger;

/**
 * A log that writes warnings and errors of the tools themselves to the standard error of the command that they belong to,
 * as Kafka's tools do. What the clients below them log depends on timing (a retry more or less) and is dropped, but for
 * the one class through which the console producer reports a record that was refused.
 */
public final class ToolLog extends MarkerIgnoringBase {
    private static final long serialVersionUID = 1L;

    private ToolLog(String name) {
        this.name = name;
    }

    public static Logger named(String name) {
        boolean told = name.startsWith("org.apache.kafka.tools.")
            || name.equals("org.apache.kafka.clients.producer.internals.ErrorLoggingCallback");
        return told ? new ToolLog(name) : NOPLogger.NOP_LOGGER;
    }

    private void write(String level, FormattingTuple t) {
        String line = level + " " + t.getMessage() + " (" + name + ")";
        if (t.getThrowable() != null) {
            line += "\n" + t.getThrowable();
        }
        System.err.println(line);
    }

    private static FormattingTuple tuple(String format, Object... args) {
        return MessageFormatter.arrayFormat(format, args);
    }

    @Override public boolean isTraceEnabled() { return false; }
    @Override public void trace(String msg) { }
    @Override public void trace(String format, Object arg) { }
    @Override public void trace(String format, Object a, Object b) { }
    @Override public void trace(String format, Object... args) { }
    @Override public void trace(String msg, Throwable t) { }

    @Override public boolean isDebugEnabled() { return false; }
    @Override public void debug(String msg) { }
    @Override public void debug(String format, Object arg) { }
    @Override public void debug(String format, Object a, Object b) { }
    @Override public void debug(String format, Object... args) { }
    @Override public void debug(String msg, Throwable t) { }

    @Override public boolean isInfoEnabled() { return false; }
    @Override public void info(String msg) { }
    @Override public void info(String format, Object arg) { }
    @Override public void info(String format, Object a, Object b) { }
    @Override public void info(String format, Object... args) { }
    @Override public void info(String msg, Throwable t) { }

    @Override public boolean isWarnEnabled() { return true; }
    @Override public void warn(String msg) { write("WARN", tuple(msg)); }
    @Override public void warn(String format, Object arg) { write("WARN", tuple(format, arg)); }
    @Override public void warn(String format, Object a, Object b) { write("WARN", tuple(format, a, b)); }
    @Override public void warn(String format, Object... args) { write("WARN", tuple(format, args)); }
    @Override public void warn(String msg, Throwable t) { write("WARN", new FormattingTuple(msg, null, t)); }

    @Override public boolean isErrorEnabled() { return true; }
    @Override public void error(String msg) { write("ERROR", tuple(msg)); }
    @Override public void error(String format, Object arg) { write("ERROR", tuple(format, arg)); }
    @Override public void error(String format, Object a, Object b) { write("ERROR", tuple(format, a, b)); }
    @Override public void error(String format, Object... args) { write("ERROR", tuple(format, args)); }
    @Override public void error(String msg, Throwable t) { write("ERROR", new FormattingTuple(msg, null, t)); }
}
