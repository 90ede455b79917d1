package claret.lock;

import claret.wire.Words;
import java.time.Duration;

/**
 * Options of a retained lock: lease, longest wait ({@code null}: for ever), owner ({@code null}: host
 * and process), most stays after another client wants the lock, and stays in one grant.
 */
public record RetainedOptions(Duration lease, Duration timeout, String owner, int cohort, int tokens) {
    /** Checks the options. */
    public RetainedOptions {
        if (lease.toMillis() < 1 || cohort < 1 || tokens < 1) {
            throw new IllegalArgumentException("lease, cohort and tokens are one at least");
        }
        Words.checkTimes(timeout);
    }

    /** A lease of 30 seconds, waited for without limit. */
    public static RetainedOptions defaults() {
        return new RetainedOptions(Duration.ofSeconds(30), null, null, 16, 1024);
    }

    /** A copy with another lease. */
    public RetainedOptions lease(Duration time) {
        return new RetainedOptions(time, timeout, owner, cohort, tokens);
    }

    /** A copy with another longest wait. */
    public RetainedOptions timeout(Duration time) {
        return new RetainedOptions(lease, time, owner, cohort, tokens);
    }
}
