package millrace.compat;

import java.nio.file.Path;
import java.util.Collection;

/** One member of a consumer group. All calls come on one thread, the member's own. */
interface GroupMember {
    /** Called over and over between requests. A client that takes part in rebalances by being polled polls here. */
    default void idle() throws Exception {
        Thread.sleep(20);
    }

    /** Appends records to the file until at least count were, or the time is up; returns how many. */
    long consume(Path out, long count, long timeoutMs) throws Exception;

    /** The partitions that the member owns now. */
    Collection<Integer> assignment();

    /** Commits, for every partition it owns, the offset after the last record that was written. */
    void commit() throws Exception;

    /** Leaves the group, without a commit. */
    void close() throws Exception;
}
