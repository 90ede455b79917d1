package claret.lock;

import claret.wire.Wire;
import claret.wire.Words;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;

/** Options of a lock. Immutable: each method returns a copy with one change. */
public final class LockOptions {
    private static final LockOptions DEFAULTS =
            new LockOptions(Duration.ofSeconds(30), null, null, false, 0, false, Manner.PLAIN);

    /** How a lock passes from holder to holder. */
    enum Manner {
        PLAIN,
        /** The server that the client is connected to keeps it. */
        NEAR,
        /** It is passed on before the release is on disk. */
        NEXT
    }

    final Duration lease;
    final Duration timeout;
    final String owner;
    final boolean shared;
    final int limit;
    final boolean detect;
    final Manner manner;

    private LockOptions(
            Duration lease,
            Duration timeout,
            String owner,
            boolean shared,
            int limit,
            boolean detect,
            Manner manner) {
        if (lease.toMillis() < 1) {
            throw new IllegalArgumentException("a lease is a millisecond at least");
        }
        if (shared && limit > 0) {
            throw new IllegalArgumentException("a lock is shared or has a limit");
        }
        if (limit < 0) {
            throw new IllegalArgumentException("a limit is zero at least");
        }
        if (manner != Manner.PLAIN && (shared || limit > 0 || (manner == Manner.NEAR && detect))) {
            throw new IllegalArgumentException(
                    "a lock with near or next is held alone, and one with near detects no cycles");
        }
        Words.checkTimes(timeout);
        this.lease = lease;
        this.timeout = timeout;
        this.owner = owner;
        this.shared = shared;
        this.limit = limit;
        this.detect = detect;
        this.manner = manner;
    }

    /** A lock held alone, with a lease of 30 seconds, waited for without limit. */
    public static LockOptions defaults() {
        return DEFAULTS;
    }

    /** Time for which the lock stays held if its holder is lost. */
    public LockOptions lease(Duration time) {
        return new LockOptions(time, timeout, owner, shared, limit, detect, manner);
    }

    /** Longest wait; zero does not wait. */
    public LockOptions timeout(Duration time) {
        return new LockOptions(lease, time, owner, shared, limit, detect, manner);
    }

    /** Name in {@code LOCK.HOLDERS}. Default: host and process. */
    public LockOptions owner(String name) {
        return new LockOptions(lease, timeout, name, shared, limit, detect, manner);
    }

    /** Admits other holders that share it too. */
    public LockOptions shared() {
        return new LockOptions(lease, timeout, owner, true, limit, detect, manner);
    }

    /** Admits a number of holders in all. */
    public LockOptions limit(int holders) {
        return new LockOptions(lease, timeout, owner, shared, holders, detect, manner);
    }

    /**
     * Throws {@link DeadlockException} instead of waiting in a cycle with other owners; the owner's name
     * is then one that no other thread uses.
     */
    public LockOptions detect(String owner) {
        return new LockOptions(lease, timeout, owner, shared, limit, true, manner);
    }

    /**
     * Lets the server that the client is connected to keep the lock, and pass it from client to client
     * without a write. It is held alone; what it guards must be guarded by {@link claret.Claret#fenced}.
     */
    public LockOptions near() {
        return new LockOptions(lease, timeout, owner, shared, limit, detect, Manner.NEAR);
    }

    /**
     * Lets a release pass the lock on before it is on disk, to a waiter that has this option as well.
     * It is held alone; what it guards must be guarded by {@link claret.Claret#fenced}.
     */
    public LockOptions next() {
        return new LockOptions(lease, timeout, owner, shared, limit, detect, Manner.NEXT);
    }

    /** Words of a place in the queue, behind the owner. */
    List<String> place() {
        List<String> words = new ArrayList<>();
        if (shared) {
            words.add("SHARED");
        }
        if (limit > 0) {
            words.addAll(List.of("LIMIT", Integer.toString(limit)));
        }
        return words;
    }

    /** Waits in turn for what has these options; {@code null} if that takes too long. */
    Lease acquire(Wire wire, String name, Function<Long, List<String>> words) {
        return Lease.acquire(wire, name, lease, timeout, System.nanoTime(), words);
    }
}
