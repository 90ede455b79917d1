package claret.lock;

import claret.wire.Wire;
import claret.wire.Words;
import java.time.Duration;
import java.util.List;
import java.util.function.Function;

/** Options of a lock. Immutable: each method returns a copy with one change. */
public final class LockOptions {
    private static final LockOptions DEFAULTS =
            new LockOptions(Duration.ofSeconds(30), null, null, false, 0, false);

    final Duration lease;
    final Duration timeout;
    final String owner;
    final boolean shared;
    final int limit;
    final boolean detect;

    private LockOptions(
            Duration lease, Duration timeout, String owner, boolean shared, int limit, boolean detect) {
        if (lease.toMillis() < 1) {
            throw new IllegalArgumentException("a lease is a millisecond at least");
        }
        if (shared && limit > 0) {
            throw new IllegalArgumentException("a lock is shared or has a limit");
        }
        if (limit < 0) {
            throw new IllegalArgumentException("a limit is zero at least");
        }
        Words.checkTimes(timeout);
        this.lease = lease;
        this.timeout = timeout;
        this.owner = owner;
        this.shared = shared;
        this.limit = limit;
        this.detect = detect;
    }

    /** A lock held alone, with a lease of 30 seconds, waited for without limit. */
    public static LockOptions defaults() {
        return DEFAULTS;
    }

    /** Time for which the lock stays held if its holder is lost. */
    public LockOptions lease(Duration time) {
        return new LockOptions(time, timeout, owner, shared, limit, detect);
    }

    /** Longest wait; zero does not wait. */
    public LockOptions timeout(Duration time) {
        return new LockOptions(lease, time, owner, shared, limit, detect);
    }

    /** Name in {@code LOCK.HOLDERS}. Default: host and process. */
    public LockOptions owner(String name) {
        return new LockOptions(lease, timeout, name, shared, limit, detect);
    }

    /** Admits other holders that share it too. */
    public LockOptions shared() {
        return new LockOptions(lease, timeout, owner, true, limit, detect);
    }

    /** Admits a number of holders in all. */
    public LockOptions limit(int holders) {
        return new LockOptions(lease, timeout, owner, shared, holders, detect);
    }

    /**
     * Throws {@link DeadlockException} instead of waiting in a cycle with other owners; the owner's name
     * is then one that no other thread uses.
     */
    public LockOptions detect(String owner) {
        return new LockOptions(lease, timeout, owner, shared, limit, true);
    }

    /** Waits in turn for what has these options; {@code null} if that takes too long. */
    Lease acquire(Wire wire, String name, Function<Long, List<String>> words) {
        return Lease.acquire(wire, name, lease, timeout, System.nanoTime(), words);
    }
}
