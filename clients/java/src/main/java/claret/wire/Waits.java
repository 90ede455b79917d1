package claret.wire;

import claret.error.BusyException;
import claret.error.CancelledException;
import claret.error.ClaretException;
import claret.error.ConnectionException;
import claret.error.UnknownOutcomeException;
import java.time.Duration;
import java.util.List;

/** Requests that wait at the server, such as those for locks. */
public final class Waits {
    private static final long DAY_MS = 86_400_000;
    private static final long GRACE_MS = 10_000;
    private static final long UNBLOCK_MS = 1_000;

    private Waits() {}

    /** Sends one request: the milliseconds are those left to wait, {@code null} for ever. */
    @FunctionalInterface
    public interface Request<T> {
        /** Sends the request; {@code again} says whether it was sent before. */
        T send(Long waitMs, boolean again);
    }

    /** Sends a request again as long as its reply is lost, within the time to wait. */
    public static <T> T untilAnswered(Wire wire, Duration timeout, Request<T> request) {
        long begunNs = System.nanoTime();
        Retry.Failures failures = wire.retry.failures();
        boolean again = false;
        while (true) {
            long askedNs = System.nanoTime();
            try {
                return request.send(leftMs(timeout, begunNs), again);
            } catch (BusyException | ConnectionException | UnknownOutcomeException error) {
                again = true;
                failures.pause(error, askedNs);
            }
        }
    }

    /** Milliseconds left to wait since a time: 0 only if the caller does not want to wait. */
    public static Long leftMs(Duration timeout, long sinceNs) {
        if (timeout == null || timeout.isZero()) {
            return timeout == null ? null : Long.valueOf(0);
        }
        return Math.max(1, timeout.toMillis() - (System.nanoTime() - sinceNs) / 1_000_000);
    }

    /**
     * The reply to the last of some commands, which may take this long; throws the first error. The
     * connection is closed if there is no reply: the server then takes a late grant back.
     */
    public static Object ask(Wire wire, List<List<String>> commands, Long waitMs) {
        return ask(wire, commands, waitMs, GRACE_MS);
    }

    /** The same, with the time that the answer may come late. */
    public static Object ask(Wire wire, List<List<String>> commands, Long waitMs, long graceMs) {
        long longest = waitMs == null ? DAY_MS : Math.min(DAY_MS, waitMs + graceMs);
        try (Lane lane = new Lane(wire)) {
            try {
                return Translate.lastOf(lane.exchange(commands, true, longest));
            } catch (CancelledException cancelled) {
                Interrupts.postponed(() -> unblock(wire, lane.id()));
                throw cancelled;
            }
        }
    }

    /** Ends a wait at once: the server may learn only later that its connection is closed. */
    private static boolean unblock(Wire wire, long id) {
        try {
            wire.exchange(List.of(List.of("CLIENT", "UNBLOCK", Long.toString(id))), UNBLOCK_MS);
            return true;
        } catch (ClaretException error) {
            return false;
        }
    }
}
