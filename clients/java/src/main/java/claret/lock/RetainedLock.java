package claret.lock;

import claret.error.ClosedException;
import claret.wire.Interrupts;
import claret.wire.Waits;
import claret.wire.Wire;
import claret.wire.Words;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;

/**
 * A lock that stays with the process until another client wants it. One object serves all threads:
 * they take turns without the server, each under a token of its own.
 *
 * <p>A daemon thread renews the lease, and learns over a connection that is quiet otherwise that another
 * client wants the lock. It is then given back when the current stay ends and no other thread waits, or
 * after a cohort of further stays.
 */
public final class RetainedLock implements AutoCloseable {
    private final Wire wire;
    private final String name;
    private final RetainedOptions options;
    private final ReentrantLock mutex = new ReentrantLock();
    private final Condition changed = mutex.newCondition();
    // The rest is guarded by the mutex.
    private final Deque<Stay> line = new ArrayDeque<>();
    private Lease grant;
    private Stay inside;
    private boolean recalled;
    private boolean closed;
    private int letIn;
    private int used;
    private Thread keeper;

    /** A lock that stays with the process; see {@link claret.Claret#retained}. */
    public RetainedLock(Wire wire, String name, RetainedOptions options) {
        this.wire = wire;
        this.name = name;
        this.options = options;
    }

    /** Enters the lock in turn, within the time of the options. */
    public Stay enter() {
        return enter(options.timeout());
    }

    /**
     * Enters the lock in turn; closing the stay leaves it.
     *
     * @throws NotAcquiredException if that took longer; {@code null} waits for ever
     */
    public Stay enter(Duration timeout) {
        Words.checkTimes(timeout);
        long begunNs = System.nanoTime();
        Stay stay = new Stay();
        locked(() -> line.add(stay));
        Lease old = null;
        try {
            while (true) {
                mutex.lock();
                try {
                    awaitTurn(stay, Waits.leftMs(timeout, begunNs));
                    old = takeBack();
                    if (admit(stay)) {
                        return stay;
                    }
                } finally {
                    mutex.unlock();
                }
                giveBack(old);
                old = null;
                granted(acquire(timeout, begunNs));
            }
        } finally {
            Lease left = locked(() -> stay == inside ? null : leaveAndTakeBack(stay));
            giveBack(old);
            giveBack(left);
        }
    }

    private void awaitTurn(Stay stay, Long leftMs) {
        boolean came = await(() -> closed || (inside == null && line.peek() == stay), leftMs);
        if (closed) {
            throw new ClosedException("the retained lock " + name + " is closed");
        }
        if (!came) {
            throw new NotAcquiredException("the lock " + name + " was not free in time");
        }
    }

    private Lease acquire(Duration timeout, long begunNs) {
        Lease lease = Lease.acquire(wire, name, options.lease(), timeout, begunNs, this::words);
        if (lease == null) {
            throw new NotAcquiredException("the lock " + name + " was not free in time");
        }
        return lease;
    }

    private List<String> words(Long waitMs) {
        List<String> words = Lease.words(options.lease(), waitMs, options.owner(), "LOCK.ACQUIRE", name);
        words.addAll(List.of("TOKENS", Integer.toString(options.tokens())));
        return words;
    }

    private void granted(Lease lease) {
        locked(
                () -> {
                    grant = lease;
                    recalled = false;
                    letIn = 0;
                    used = 0;
                    if (keeper == null) {
                        keeper = new Thread(this::keep, "claret-retained-" + name);
                        keeper.setDaemon(true);
                        keeper.start();
                    }
                    return null;
                });
    }

    private boolean admit(Stay stay) {
        if (grant == null) {
            return false;
        }
        stay.begin(grant, grant.token() + used);
        used++;
        letIn += recalled ? 1 : 0;
        line.remove(stay);
        inside = stay;
        return true;
    }

    /** The grant, which the process no longer has, if it is to be given back now. */
    private Lease takeBack() {
        if (grant == null || inside != null) {
            return null;
        }
        boolean others = recalled && (line.isEmpty() || letIn >= options.cohort());
        if (!others && !closed && grant.isHeld() && used < options.tokens()) {
            return null;
        }
        Lease old = grant;
        grant = null;
        return old;
    }

    private Lease leaveAndTakeBack(Stay stay) {
        if (inside == stay) {
            inside = null;
        } else {
            line.remove(stay);
        }
        return takeBack();
    }

    private static void giveBack(Lease lease) {
        if (lease != null) {
            lease.release();
        }
    }

    /** Gives the lock back when its last stay ends; there are no further stays. */
    @Override
    public void close() {
        giveBack(
                locked(
                        () -> {
                            closed = true;
                            return takeBack();
                        }));
    }

    private <T> T locked(Supplier<T> action) {
        mutex.lock();
        try {
            return action.get();
        } finally {
            changed.signalAll();
            mutex.unlock();
        }
    }

    /** Waits, with the mutex, for a condition; {@code null} for ever. Returns whether it holds. */
    private boolean await(BooleanSupplier condition, Long waitMs) {
        try {
            long leftNs = waitMs == null ? Long.MAX_VALUE : TimeUnit.MILLISECONDS.toNanos(waitMs);
            while (!condition.getAsBoolean()) {
                if (leftNs <= 0) {
                    return false;
                }
                leftNs = changed.awaitNanos(leftNs);
            }
            return true;
        } catch (InterruptedException interrupted) {
            throw Interrupts.cancelled();
        }
    }

    private void keep() {
        while (true) {
            Lease kept =
                    locked(
                            () -> {
                                await(() -> closed || grant != null, null);
                                return grant;
                            });
            if (kept == null) {
                return;
            }
            lookAfter(kept);
            locked(() -> lapse(kept));
        }
    }

    /** Ends a grant that is lost: its stay learns of it, and the next one asks for the lock anew. */
    private Void lapse(Lease lost) {
        if (grant == lost) {
            grant = null;
            inside = null;
        }
        return null;
    }

    private boolean isGone(Lease kept, double waitMs) {
        return locked(() -> await(() -> grant != kept, Math.max(1, (long) waitMs)));
    }

    /** Renews a grant, and learns of other clients, until the process gives it back. */
    private void lookAfter(Lease kept) {
        boolean failed = false;
        while (locked(() -> grant == kept) && kept.isHeld()) {
            try {
                if (failed || !wasTold(kept)) {
                    failed = !kept.renew();
                }
            } catch (ClosedException over) {
                kept.lose();
            } catch (RuntimeException error) {
                failed = true;
                isGone(kept, kept.pauseMs(true));
            }
        }
    }

    /** Waits for an event of a grant; returns whether there was one, or it is time to renew. */
    private boolean wasTold(Lease kept) {
        double pauseMs = kept.pauseMs(false);
        if (locked(() -> recalled)) {
            return isGone(kept, pauseMs);
        }
        Long wanted = kept.wanted(pauseMs);
        if (wanted == null) {
            return false;
        }
        giveBack(
                locked(
                        () -> {
                            if (grant != kept) {
                                return null;
                            }
                            if (wanted == 0) {
                                kept.lose();
                                return null;
                            }
                            recalled = true;
                            return takeBack();
                        }));
        return true;
    }

    /** One stay in the lock, under a fencing token of its own. */
    public final class Stay implements Held, AutoCloseable {
        private Lease granted;
        private long token;
        private boolean ended;

        private Stay() {}

        private void begin(Lease lease, long own) {
            granted = lease;
            token = own;
        }

        @Override
        public String name() {
            return name;
        }

        @Override
        public long token() {
            return token;
        }

        @Override
        public long grantToken() {
            return granted.token();
        }

        @Override
        public boolean isHeld() {
            return !ended && granted.isHeld();
        }

        @Override
        public LockLostException lose() {
            return granted.lose();
        }

        /** Leaves the lock; returns whether it was still held. */
        public boolean leave() {
            if (ended) {
                return false;
            }
            boolean held = isHeld();
            ended = true;
            giveBack(locked(() -> leaveAndTakeBack(this)));
            return held;
        }

        /**
         * Leaves the lock, which stays with the process unless another client wants it.
         *
         * @throws LockLostException if it was lost before
         */
        @Override
        public void close() {
            if (!ended && !leave()) {
                throw new LockLostException("the lock " + name + " was lost before the stay ended");
            }
        }
    }
}
