package claret.lock;

import claret.wire.Wire;
import java.util.ArrayList;
import java.util.List;

/**
 * A lock that is held, renewed by a daemon thread until it is closed.
 *
 * <p>A client cannot know for certain that it still holds a lock at the very moment at which it writes.
 * Two ways to write let the store judge: {@link claret.Claret#fenced} and {@link
 * claret.Transaction#require}.
 */
public final class Lock implements Held, AutoCloseable {
    private final Lease lease;

    private Lock(Lease lease) {
        this.lease = lease;
    }

    /** Waits in turn for a lock; see {@link claret.Claret#lock}. */
    public static Lock acquire(Wire wire, String name, LockOptions options) {
        Lease lease =
                Lease.acquire(wire, name, options.lease, options.timeout, waitMs -> words(name, options, waitMs));
        if (lease == null) {
            throw new NotAcquiredException("the lock " + name + " was not free in time");
        }
        lease.keep();
        return new Lock(lease);
    }

    private static List<String> words(String name, LockOptions options, Long waitMs) {
        boolean atOnce = waitMs != null && waitMs == 0;
        List<String> words = new ArrayList<>(List.of(atOnce ? "LOCK.TRY" : "LOCK.ACQUIRE", name));
        words.addAll(List.of("LEASE", Long.toString(options.lease.toMillis())));
        if (waitMs != null && !atOnce) {
            words.addAll(List.of("TIMEOUT", Long.toString(waitMs)));
        }
        if (options.detect && !atOnce) {
            words.add("DETECT");
        }
        words.addAll(List.of("OWNER", LockOptions.ownerOr(options.owner)));
        if (options.shared) {
            words.add("SHARED");
        }
        if (options.limit > 0) {
            words.addAll(List.of("LIMIT", Integer.toString(options.limit)));
        }
        return words;
    }

    @Override
    public String name() {
        return lease.name;
    }

    @Override
    public long token() {
        return lease.token();
    }

    @Override
    public boolean isHeld() {
        return lease.isHeld();
    }

    @Override
    public LockLostException lose() {
        return lease.lose();
    }

    /** Ends the renewal, so that the lock ends with its lease: for tests of what happens then. */
    public void stopRenewing() {
        lease.stopRenewing();
    }

    /** Releases the lock; returns whether it was still held. */
    public boolean release() {
        return lease.release();
    }

    /**
     * Releases the lock.
     *
     * @throws LockLostException if it was lost before, so that the work under it may not have been alone
     */
    @Override
    public void close() {
        if (lease.isReleased()) {
            return;
        }
        boolean held = lease.isHeld();
        lease.release();
        if (!held) {
            throw new LockLostException("the lock " + lease.name + " was lost before it was closed");
        }
    }
}
