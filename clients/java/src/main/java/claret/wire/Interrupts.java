package claret.wire;

import claret.error.CancelledException;
import java.util.function.Supplier;

/** Interruption of threads, which is how a caller gives up. */
public final class Interrupts {
    private Interrupts() {}

    /** The exception of an interrupted thread, whose flag it sets. */
    public static CancelledException cancelled() {
        Thread.currentThread().interrupt();
        return new CancelledException("the thread was interrupted", false);
    }

    /** Sleeps for some milliseconds. */
    public static void sleep(double ms) {
        try {
            long whole = (long) ms;
            Thread.sleep(whole, (int) ((ms - whole) * 999_999));
        } catch (InterruptedException interrupted) {
            throw cancelled();
        }
    }

    /** Does what must be done even if the thread was interrupted before. */
    public static <T> T postponed(Supplier<T> action) {
        boolean interrupted = Thread.interrupted();
        try {
            return action.get();
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }
}
