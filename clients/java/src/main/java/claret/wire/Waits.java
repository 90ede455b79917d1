package claret.wire;

import claret.error.BusyException;
import claret.error.ClaretException;
import claret.error.ClosedException;
import claret.error.ConnectionException;
import claret.error.UnknownOutcomeException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;

/** Requests that wait at the server, such as those for locks. */
public final class Waits {
    private static final long DAY_MS = 86_400_000;

    /** Time that an answer may come late. */
    public static final long GRACE_MS = 10_000;
    private static final long UNBLOCK_MS = 1_000;
    // Longest time that a caller that gives up waits for what is left to do.
    private static final long REMAINS_MS = 400;
    private static final long UNBLOCK_PAUSE_MS = 20;

    private Waits() {}

    /** Sends one request: the milliseconds are those left to wait, {@code null} for ever. */
    @FunctionalInterface
    public interface Request<T> {
        /** Sends the request; {@code again} says whether it was sent before. */
        T send(Long waitMs, boolean again);
    }

    /**
     * Sends a request again as long as its reply is lost, within the time to wait.
     *
     * @throws UnknownOutcomeException if it is given up, and one of those that were sent may have taken
     *     effect
     */
    public static <T> T untilAnswered(Wire wire, Duration timeout, Request<T> request) {
        return untilAnswered(wire, timeout, System.nanoTime(), request);
    }

    /** The same, within the time to wait since an earlier time. */
    public static <T> T untilAnswered(Wire wire, Duration timeout, long begunNs, Request<T> request) {
        Retry.Failures failures = wire.retry.failures();
        boolean again = false;
        boolean lost = false;
        while (true) {
            long askedNs = System.nanoTime();
            try {
                return request.send(leftMs(timeout, begunNs), again);
            } catch (BusyException | ConnectionException | UnknownOutcomeException error) {
                again = true;
                lost |= error.mayHaveHappened();
                pause(failures, error, error.mayHaveHappened(), askedNs, lost);
            }
        }
    }

    /** Pauses after a failed attempt; what ends them is unknown if one of them was lost. */
    public static void pause(
            Retry.Failures failures, ClaretException error, boolean sent, long askedNs, boolean lost) {
        try {
            failures.pause(error, sent, askedNs);
        } catch (BusyException | ConnectionException last) {
            throw lost ? new UnknownOutcomeException(last.getMessage(), last) : last;
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
     * The reply to the last of some commands that only read, which may take this long, and come so much
     * later; throws the first error.
     */
    public static Object ask(Wire wire, List<List<String>> commands, Long waitMs, long graceMs) {
        try {
            return ask(wire, commands, waitMs, graceMs, left -> remains(wire, left::end));
        } catch (UnknownOutcomeException lost) {
            throw new ConnectionException(lost.getMessage(), lost);
        }
    }

    /**
     * The same of commands that may take effect although their reply is lost, with what ends the wait if
     * the thread is interrupted. The connection is closed if there is no reply: the server then takes a
     * late grant back.
     *
     * <p>Another thread reads the answer, so that an interruption does not close the connection: what
     * was granted in that moment is learnt.
     */
    public static Object ask(
            Wire wire, List<List<String>> commands, Long waitMs, long graceMs, Consumer<Left> givenUp) {
        if (Thread.currentThread().isInterrupted()) {
            throw Interrupts.cancelled();
        }
        long longest = longestMs(waitMs, graceMs);
        Lane lane = new Lane(wire);
        Future<List<Object>> answer = wire.elsewhere(() -> exchanged(lane, commands, longest));
        try {
            return Translate.lastOf(answer.get());
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            givenUp.accept(new Left(wire, lane, answer));
            throw Interrupts.cancelled();
        } catch (ExecutionException error) {
            throw unchecked(error.getCause());
        }
    }

    /** Longest time until the answer to a wait of this time, {@code null} being for ever. */
    public static long longestMs(Long waitMs, long graceMs) {
        return waitMs == null ? DAY_MS : Math.min(DAY_MS, waitMs + graceMs);
    }

    private static List<Object> exchanged(Lane lane, List<List<String>> commands, long longest) {
        try (lane) {
            lane.connect();
            try {
                return lane.exchange(commands, true, longest);
            } catch (ConnectionException error) {
                throw new UnknownOutcomeException("the reply was lost: " + error.getMessage(), error);
            }
        }
    }

    private static RuntimeException unchecked(Throwable cause) {
        if (cause instanceof RuntimeException told) {
            return told;
        }
        return new IllegalStateException(cause);
    }

    /** How a wait ended that was given up: whether the server has answered, and what. */
    public record End(boolean answered, Object answer) {}

    /** A wait whose thread was interrupted, while the server may still answer. */
    public static final class Left {
        private final Wire wire;
        private final Lane lane;
        private final Future<List<Object>> answer;

        private Left(Wire wire, Lane lane, Future<List<Object>> answer) {
            this.wire = wire;
            this.lane = lane;
            this.answer = answer;
        }

        /** Ends the wait at the server. */
        public End end() {
            long endNs = System.nanoTime() + UNBLOCK_MS * 1_000_000;
            while (System.nanoTime() < endNs) {
                // Again and again: the first may come before the request, which then still waits.
                unblock(wire, lane.id());
                try {
                    Object last = Translate.lastOf(answer.get(UNBLOCK_PAUSE_MS, TimeUnit.MILLISECONDS));
                    return new End(true, last);
                } catch (TimeoutException early) {
                    continue;
                } catch (InterruptedException | ExecutionException | ClaretException none) {
                    break;
                }
            }
            answer.cancel(true);
            return new End(false, null);
        }
    }

    /**
     * Does what is left of a wait that was given up, also if the thread is interrupted. After a while it
     * goes on by itself.
     */
    public static void remains(Wire wire, Runnable rest) {
        Future<?> done;
        try {
            done = wire.elsewhere(Executors.callable(rest));
        } catch (ClosedException over) {
            return;
        }
        Interrupts.postponed(
                () -> {
                    try {
                        done.get(REMAINS_MS, TimeUnit.MILLISECONDS);
                    } catch (InterruptedException again) {
                        Thread.currentThread().interrupt();
                    } catch (TimeoutException | ExecutionException late) {
                        // What was granted ends with its lease, at the latest.
                    }
                    return null;
                });
    }

    private static void unblock(Wire wire, long id) {
        if (id == 0) {
            return;
        }
        try {
            wire.exchange(List.of(List.of("CLIENT", "UNBLOCK", Long.toString(id))), UNBLOCK_MS);
        } catch (ClaretException error) {
            // It is tried again, and in the end the connection is closed.
        }
    }
}
