package claret;

import claret.wire.Words;
import java.nio.charset.StandardCharsets;
import java.time.Duration;

/** Options of {@link Claret#run}. Immutable: each method returns a copy with one change. */
public final class RunOptions {
    // A name of requests has 64 bytes at most, of which five say that it is one of these.
    private static final int ONCE_BYTES_MAX = 59;
    private static final RunOptions STRICT = withDefaults(true);
    private static final RunOptions LENIENT = withDefaults(false);

    final boolean strict;
    final boolean update;
    final boolean readonly;
    final int attemptsMax;
    final Duration deadline;
    final Duration idleTimeout;
    final Duration transactionTimeout;
    final String once;

    private RunOptions(
            boolean strict,
            boolean update,
            boolean readonly,
            int attemptsMax,
            Duration deadline,
            Duration idleTimeout,
            Duration transactionTimeout,
            String once) {
        if (readonly && (update || once != null)) {
            throw new IllegalArgumentException("a transaction that only reads has no effect to announce");
        }
        checkOnce(once);
        if (attemptsMax < 0) {
            throw new IllegalArgumentException("a number of attempts is 0 at least");
        }
        if (deadline == null) {
            throw new IllegalArgumentException("a deadline is a time");
        }
        Words.checkTimes(deadline, idleTimeout, transactionTimeout);
        this.strict = strict;
        this.update = update;
        this.readonly = readonly;
        this.attemptsMax = attemptsMax;
        this.deadline = deadline;
        this.idleTimeout = idleTimeout;
        this.transactionTimeout = transactionTimeout;
        this.once = once;
    }

    private static RunOptions withDefaults(boolean strict) {
        return new RunOptions(strict, false, false, 0, Duration.ofSeconds(10), null, null, null);
    }

    private static void checkOnce(String text) {
        if (text == null) {
            return;
        }
        int bytes = text.getBytes(StandardCharsets.UTF_8).length;
        boolean plain = text.codePoints().noneMatch(c -> Character.isISOControl(c) || isSpace(c));
        if (bytes < 1 || bytes > ONCE_BYTES_MAX || !plain) {
            throw new IllegalArgumentException(
                    "the text of once has 1 to " + ONCE_BYTES_MAX + " bytes, without spaces and controls");
        }
    }

    private static boolean isSpace(int c) {
        return Character.isWhitespace(c) || Character.isSpaceChar(c);
    }

    /** The default: nothing takes effect if a command is refused; attempts for ten seconds. */
    public static RunOptions strict() {
        return STRICT;
    }

    /** Lets the other commands take effect if one is refused. */
    public static RunOptions lenient() {
        return LENIENT;
    }

    /**
     * The transaction takes effect once, in whatever process it is run again with the same text.
     *
     * <p>A repeated run throws {@link claret.error.RepeatedException}, or returns the same value if
     * it only writes, the same as before. The text has 1 to 59 bytes, without spaces and control
     * characters.
     */
    public RunOptions once(String text) {
        return new RunOptions(
                strict, update, readonly, attemptsMax, deadline, idleTimeout, transactionTimeout, text);
    }

    /** Its reads announce that their keys are written afterwards: such transactions wait in line. */
    public RunOptions update() {
        return new RunOptions(
                strict, true, readonly, attemptsMax, deadline, idleTimeout, transactionTimeout, once);
    }

    /** It only reads, at one instant, and takes no locks. */
    public RunOptions readOnly() {
        return new RunOptions(
                strict, update, true, attemptsMax, deadline, idleTimeout, transactionTimeout, once);
    }

    /** Largest number of attempts; 0 is no limit. */
    public RunOptions attemptsMax(int count) {
        return new RunOptions(
                strict, update, readonly, count, deadline, idleTimeout, transactionTimeout, once);
    }

    /**
     * Time after which no further attempt is made, and no read or wait in line goes on. A commit that
     * was sent is awaited.
     */
    public RunOptions deadline(Duration time) {
        return new RunOptions(
                strict, update, readonly, attemptsMax, time, idleTimeout, transactionTimeout, once);
    }

    /** Longest pause between commands while other clients wait; zero is no limit. */
    public RunOptions idleTimeout(Duration time) {
        return new RunOptions(
                strict, update, readonly, attemptsMax, deadline, time, transactionTimeout, once);
    }

    /** Longest duration of an attempt while other clients wait; zero is no limit. */
    public RunOptions transactionTimeout(Duration time) {
        return new RunOptions(
                strict, update, readonly, attemptsMax, deadline, idleTimeout, time, once);
    }
}
