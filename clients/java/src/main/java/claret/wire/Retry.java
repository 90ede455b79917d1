package claret.wire;

import claret.error.ClaretException;
import java.time.Duration;
import java.util.concurrent.ThreadLocalRandom;

/** Number and pauses of the attempts at a request: {@code attemptsMax} 0 is no limit. */
public record Retry(int attemptsMax, Duration deadline) {
    private static final double PAUSE_MS_MIN = 0.5;
    private static final double PAUSE_MS_MAX = 50;

    /** Milliseconds before an attempt (1: the first retry), at random, so that rivals part. */
    static double pauseMs(int attempt) {
        double longest = Math.min(PAUSE_MS_MAX, PAUSE_MS_MIN * Math.pow(2, Math.min(attempt, 30)));
        return ThreadLocalRandom.current().nextDouble(longest);
    }

    /** Begins to count attempts. */
    public Attempts attempts() {
        return new Attempts();
    }

    /** Attempts of one request. */
    public final class Attempts {
        private final long endNs = System.nanoTime() + deadline.toNanos();
        private int made;

        private Attempts() {}

        /** Pauses, unless it is the first attempt; returns whether another one may be made. */
        public boolean next() {
            boolean over = made > 0 && (made == attemptsMax || leftMs() <= 0);
            if (!over && made > 0) {
                Interrupts.sleep(pauseMs(made));
            }
            made++;
            return !over;
        }

        /** Milliseconds until the deadline. */
        public long leftMs() {
            return (endNs - System.nanoTime()) / 1_000_000;
        }
    }

    /** Duration of an uninterrupted series of failures of a wait that is repeated. */
    public final class Failures {
        private int count;
        private long sinceNs;

        /**
         * Pauses after a failed attempt that began at a time; throws its error after too many. A request
         * that was sent, and has waited for long, has had a server for long.
         */
        public void pause(ClaretException error, boolean sent, long askedNs) {
            long now = System.nanoTime();
            boolean served = sent && !error.isBusy();
            if (count == 0 || (served && now - askedNs > 1_000_000_000L)) {
                sinceNs = now;
                count = 0;
            }
            count++;
            if (now - sinceNs > deadline.toNanos()) {
                throw error;
            }
            Interrupts.sleep(pauseMs(count));
        }
    }

    /** Begins to count failures. */
    public Failures failures() {
        return new Failures();
    }
}
