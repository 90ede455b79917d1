package claret.lock;

import claret.error.BusyException;
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
    private Waits.Left left;
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
        Numbers numbers = wire.requests.borrow();
        Runnable rest = null;
        try {
            while (true) {
                Request request = numbers.next();
                rest = taken::forget;
                Boolean held;
                try {
                    held =
                            Waits.untilAnswered(
                                    wire,
                                    timeout,
                                    begunNs,
                                    (waitMs, again) -> taken.asked(request, words, waitMs, again));
                } catch (CancelledException | ConnectionException | UnknownOutcomeException error) {
                    rest = () -> taken.endWith(request, words);
                    throw error;
                }
                if (held == null) {
                    return null;
                }
                if (held) {
                    rest = null;
                    return taken;
                }
                taken.token = 0;
            }
        } finally {
            taken.leave(rest, numbers);
        }
    }

    /** Gives the numbers back, when what is left of a request in vain is done. */
    private void leave(Runnable rest, Numbers numbers) {
        if (rest == null || (token == 0 && !sent)) {
            numbers.close();
            return;
        }
        Waits.remains(
                wire,
                () -> {
                    rest.run();
                    numbers.close();
                });
    }

    /** Ends a request that failed, and gives back what may have been granted all the same. */
    private void endWith(Request request, Function<Long, List<String>> words) {
        if (left != null && token == 0) {
            Object late = left.end().answer();
            token = late == null ? 0 : Convert.integer(late);
        }
        find(request, words);
        forget();
    }

    /** Looks under the number of a request that was given up whether it was granted all the same. */
    private void find(Request request, Function<Long, List<String>> words) {
        if (token != 0 || !sent) {
            return;
        }
        Object found = replyTo(List.of(request.announcement(), words.apply(0L)));
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
        replyTo(List.of(List.of("LOCK.RELEASE", name, Long.toString(unused))));
    }

    /** The last reply; {@code null} if there is none. */
    private Object replyTo(List<List<String>> commands) {
        try {
            return Translate.lastOf(wire.exchangeFresh(commands, FORGET_MS));
        } catch (RuntimeException unknown) {
            // What was granted ends with its lease.
            return null;
        }
    }

    /** Whether the grant is held; {@code null}: not granted. */
    private Boolean asked(Request request, Function<Long, List<String>> words, Long waitMs, boolean again) {
        long askedNs = System.nanoTime();
        sent |= !Thread.currentThread().isInterrupted();
        List<List<String>> commands = List.of(request.announcement(), words.apply(waitMs));
        Object reply = Waits.ask(wire, commands, waitMs, Waits.GRACE_MS, given -> left = given);
        if (reply == null) {
            sent = false;
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
        words.addAll(Owner.waiting(waitMs, owner));
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
        return Convert.integer(Waits.ask(wire, List.of(List.of(words)), whole, graceMs));
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
        try (Numbers numbers = wire.requests.borrow()) {
            // Under a number, a release whose reply was lost has the same reply when it is repeated.
            List<String> words = List.of("LOCK.RELEASE", name, Long.toString(token));
            List<List<String>> commands = List.of(numbers.next().announcement(), words);
            for (Attempts attempts = wire.retry.attempts(); attempts.next(); ) {
                try {
                    return Convert.truth(Translate.lastOf(wire.exchange(commands, wire.timeoutMs)));
                } catch (BusyException | ConnectionException | UnknownOutcomeException error) {
                    if (System.nanoTime() > untilNs) {
                        return false;
                    }
                } catch (ClosedException over) {
                    return false;
                }
            }
            return false;
        }
    }
}
