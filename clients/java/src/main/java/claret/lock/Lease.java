package claret.lock;

import claret.error.ClaretException;
import claret.error.ClosedException;
import claret.error.ConnectionException;
import claret.wire.Convert;
import claret.wire.Interrupts;
import claret.wire.Requests.Numbers;
import claret.wire.Requests.Request;
import claret.wire.Retry.Attempts;
import claret.wire.Translate;
import claret.wire.Waits;
import claret.wire.Wire;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Function;

/** A lease of this process, which is renewed and may be lost. */
final class Lease {
    // The part of a lease that its holder relies on: clocks may differ in speed by a tenth.
    private static final double TRUSTED = 0.9;

    final String name;
    private final Wire wire;
    private final long leaseMs;
    private volatile long token;
    private volatile long untilNs;
    private volatile boolean lost;
    private volatile boolean ended;
    private Thread keeper;

    private Lease(Wire wire, String name, Duration lease) {
        this.wire = wire;
        this.name = name;
        leaseMs = lease.toMillis();
    }

    /**
     * Waits in turn for a grant, by the words for the milliseconds that are left to wait; {@code null}
     * if that takes too long. The request has a number: it is repeated after a broken connection, and
     * granted once.
     */
    static Lease acquire(
            Wire wire, String name, Duration lease, Duration timeout, Function<Long, List<String>> words) {
        Lease taken = new Lease(wire, name, lease);
        long begunNs = System.nanoTime();
        try (Numbers numbers = wire.requests.borrow()) {
            while (true) {
                Request request = numbers.next();
                Long sinceBegin = Waits.leftMs(timeout, begunNs);
                Duration left = sinceBegin == null ? null : Duration.ofMillis(sinceBegin);
                Boolean sure =
                        Waits.untilAnswered(
                                wire,
                                left,
                                (waitMs, again) -> taken.asked(request, words, waitMs, again));
                if (sure == null) {
                    return null;
                }
                if (sure || taken.renew()) {
                    return taken;
                }
            }
        }
    }

    /** Whether the grant is certainly new, and not older than known; {@code null}: not granted. */
    private Boolean asked(Request request, Function<Long, List<String>> words, Long waitMs, boolean again) {
        long askedNs = System.nanoTime();
        Object reply = Waits.ask(wire, List.of(request.announcement(), words.apply(waitMs)), waitMs);
        if (reply == null) {
            return null;
        }
        take(Convert.integer(reply), askedNs);
        return !again && (System.nanoTime() - askedNs) / 1e6 <= leaseMs * (1 - TRUSTED);
    }

    private void take(long granted, long askedNs) {
        token = granted;
        untilNs = askedNs + (long) (leaseMs * 1e6 * TRUSTED);
        lost = false;
    }

    long token() {
        return token;
    }

    /** Milliseconds for which the lease can be relied on. */
    double leftMs() {
        return ended || lost ? 0 : Math.max(0, (untilNs - System.nanoTime()) / 1e6);
    }

    boolean isHeld() {
        return leftMs() > 0;
    }

    LockLostException lose() {
        lost = true;
        return new LockLostException("the lock " + name + " is no longer held");
    }

    /** Restarts the lease; returns whether it was held. */
    boolean renew() {
        long askedNs = System.nanoTime();
        List<String> words =
                List.of("LOCK.RENEW", name, Long.toString(token), "LEASE", Long.toString(leaseMs));
        // A reply that comes after the lease is of no use.
        Object reply = Translate.checked(wire.exchange(List.of(words), Math.max(leaseMs, 1)).get(0));
        if (!Convert.truth(reply)) {
            lost = true;
            return false;
        }
        take(token, askedNs);
        return true;
    }

    /** Milliseconds until the next renewal, given whether the last one has failed. */
    double pauseMs(boolean failed) {
        return Math.min(failed ? leaseMs / 30.0 : leaseMs / 3.0, leftMs());
    }

    /**
     * Number of other waiters, once there are some; 0 if the lock is not held, {@code null} if none came
     * within these milliseconds.
     */
    Long wanted(double waitMs) {
        long whole = Math.max(1, Math.round(waitMs));
        String[] words = {"LOCK.WANTED", name, Long.toString(token), "TIMEOUT", Long.toString(whole)};
        return Convert.integer(Waits.ask(wire, List.of(List.of(words)), whole, Math.max(1, leaseMs / 6)));
    }

    /** Renews the lease in a thread of its own until it is released or lost. */
    void keep() {
        keeper = new Thread(this::renewUntilEnded, "claret-lock-" + name);
        keeper.setDaemon(true);
        keeper.start();
    }

    private void renewUntilEnded() {
        boolean failed = false;
        while (isHeld() && !Thread.currentThread().isInterrupted()) {
            LockSupport.parkNanos((long) (pauseMs(failed) * 1e6));
            if (!isHeld() || Thread.currentThread().isInterrupted()) {
                return;
            }
            try {
                failed = !renew();
            } catch (ClosedException closed) {
                return;
            } catch (ClaretException error) {
                failed = true;
            }
        }
    }

    /** Ends the renewal, and leaves the lease to itself. */
    void stopRenewing() {
        if (keeper != null) {
            keeper.interrupt();
        }
    }

    /** Releases the lease; returns whether it was held. It ends by itself if no server answers. */
    boolean release() {
        stopRenewing();
        if (ended) {
            return false;
        }
        ended = true;
        return Interrupts.postponed(this::releaseNow);
    }

    boolean isReleased() {
        return ended;
    }

    private boolean releaseNow() {
        List<String> words = List.of("LOCK.RELEASE", name, Long.toString(token));
        for (Attempts attempts = wire.retry.attempts(); attempts.next(); ) {
            try {
                return Convert.truth(Translate.checked(wire.exchange(List.of(words), wire.timeoutMs).get(0)));
            } catch (ConnectionException error) {
                if (System.nanoTime() > untilNs) {
                    return false;
                }
            }
        }
        return false;
    }
}
