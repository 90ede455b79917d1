package claret.lock;

import claret.error.CancelledException;
import claret.error.ClosedException;
import claret.error.ConnectionException;
import claret.error.UnknownOutcomeException;
import claret.wire.Convert;
import claret.wire.Interrupts;
import claret.wire.Requests.Numbers;
import claret.wire.Requests.Request;
import claret.wire.Retry.Attempts;
import claret.wire.Translate;
import claret.wire.Waits;
import claret.wire.Wire;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Function;

/** A lease of this process, which is renewed and may be lost. */
final class Lease {
    // The part of a lease that its holder relies on: clocks may differ in speed by a tenth.
    private static final double TRUSTED = 0.9;

    // Parts of a lease, of which a try to renew it takes one at most.
    private static final long RENEW_PARTS = 6;

    // Longest time for each step to give back what was granted in vain.
    private static final long FORGET_MS = 1_000;

    final String name;
    private final Wire wire;
    private final long leaseMs;
    private volatile long token;
    private volatile long untilNs;
    private volatile boolean lost;
    private volatile boolean ended;
    private volatile boolean troubled;
    private boolean sent;
    private Thread keeper;

    private Lease(Wire wire, String name, Duration lease) {
        this.wire = wire;
        this.name = name;
        leaseMs = lease.toMillis();
    }

    /**
     * Waits in turn for a grant, by the words for the milliseconds that are left to wait; {@code null}
     * if that takes longer than the timeout, counted from the time at which it began. The request has a
     * number: it is repeated after a broken connection, and granted once.
     */
    static Lease acquire(
            Wire wire,
            String name,
            Duration lease,
            Duration timeout,
            long begunNs,
            Function<Long, List<String>> words) {
        Lease taken = new Lease(wire, name, lease);
        try (Numbers numbers = wire.requests.borrow()) {
            while (true) {
                Request request = numbers.next();
                boolean answered = false;
                Boolean held;
                try {
                    held =
                            Waits.untilAnswered(
                                    wire,
                                    timeout,
                                    begunNs,
                                    (waitMs, again) -> taken.asked(request, words, waitMs, again));
                    answered = true;
                } catch (CancelledException | ConnectionException | UnknownOutcomeException error) {
                    taken.find(request, words);
                    throw error;
                } finally {
                    if (!answered) {
                        taken.forget();
                    }
                }
                if (held == null) {
                    taken.forget();
                    return null;
                }
                if (held) {
                    return taken;
                }
                taken.token = 0;
            }
        }
    }

    /** Looks under the number of a request that was given up whether it was granted all the same. */
    private void find(Request request, Function<Long, List<String>> words) {
        if (token != 0 || !sent) {
            return;
        }
        Object found = askedAllTheSame(List.of(request.announcement(), words.apply(0L)));
        token = found == null ? 0 : Convert.integer(found);
    }

    /** Releases, as well as that is possible, what was granted and is of no use. */
    private void forget() {
        long unused = token;
        token = 0;
        lost = true;
        if (unused == 0) {
            return;
        }
        askedAllTheSame(List.of(List.of("LOCK.RELEASE", name, Long.toString(unused))));
    }

    /** The last reply, also if the thread is interrupted; {@code null} if there is none. */
    private Object askedAllTheSame(List<List<String>> commands) {
        return Interrupts.postponed(
                () -> {
                    try {
                        return Translate.lastOf(wire.exchangeFresh(commands, FORGET_MS));
                    } catch (RuntimeException unknown) {
                        // What was granted ends with its lease.
                        return null;
                    }
                });
    }

    /** Whether the grant is held; {@code null}: not granted. */
    private Boolean asked(Request request, Function<Long, List<String>> words, Long waitMs, boolean again) {
        long askedNs = System.nanoTime();
        sent |= !Thread.currentThread().isInterrupted();
        List<List<String>> commands = List.of(request.announcement(), words.apply(waitMs));
        Object reply =
                Waits.ask(wire, commands, waitMs, Waits.GRACE_MS, late -> token = Convert.integer(late));
        if (reply == null) {
            return null;
        }
        take(Convert.integer(reply), askedNs);
        // Only a grant that is certainly new, and not older than known, needs no renewal.
        boolean sure = !again && (System.nanoTime() - askedNs) / 1e6 <= leaseMs * (1 - TRUSTED);
        return sure || renew();
    }

    /** Words of a request for a lease; {@code null}: it waits for ever, and has the default owner. */
    static List<String> words(Duration lease, Long waitMs, String owner, String... first) {
        List<String> words = new ArrayList<>(List.of(first));
        words.addAll(List.of("LEASE", Long.toString(lease.toMillis())));
        if (waitMs != null) {
            // A request that waits needs a time, however short.
            words.addAll(List.of("TIMEOUT", Long.toString(Math.max(1, waitMs))));
        }
        words.addAll(List.of("OWNER", owner == null ? Owner.DEFAULT : owner));
        return words;
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
        // There is time for several tries; after a failed one over a new connection.
        long limitMs = Math.max(1, leaseMs / RENEW_PARTS);
        boolean fresh = troubled;
        troubled = true;
        List<List<String>> commands = List.of(words);
        List<Object> replies =
                fresh ? wire.exchangeFresh(commands, limitMs) : wire.exchange(commands, limitMs);
        Object reply = Translate.checked(replies.get(0));
        troubled = false;
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
        long graceMs = Math.max(1, leaseMs / RENEW_PARTS);
        return Convert.integer(Waits.ask(wire, List.of(List.of(words)), whole, graceMs, late -> {}));
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
            } catch (RuntimeException error) {
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
