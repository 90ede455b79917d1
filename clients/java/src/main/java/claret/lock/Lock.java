package claret.lock;

import claret.error.OrderException;
import claret.wire.Wire;
import java.util.List;

/**
 * A lock that is held, renewed by a daemon thread until it is closed.
 *
 * <p>A client cannot know for certain that it still holds a lock at the very moment at which it writes.
 * Two ways to write let the store judge: {@link claret.Claret#fenced} and {@link
 * claret.Transaction#require}.
 */
public final class Lock extends Leased {
    private final LockOptions.Manner manner;

    private Lock(Lease lease, LockOptions.Manner manner) {
        super(lease);
        this.manner = manner;
    }

    @Override
    public long grantToken() {
        if (manner != LockOptions.Manner.PLAIN) {
            throw new OrderException(
                    "the server does not tell who holds a lock with near or next: use fenced");
        }
        return token();
    }

    /** Waits in turn for a lock; see {@link claret.Claret#lock}. */
    public static Lock acquire(Wire wire, String name, LockOptions options) {
        Lease lease = options.acquire(wire, name, waitMs -> words(name, options, waitMs));
        if (lease == null) {
            throw new NotAcquiredException("the lock " + name + " was not free in time");
        }
        return new Lock(lease, options.manner);
    }

    private static List<String> words(String name, LockOptions options, Long waitMs) {
        boolean plain = options.manner == LockOptions.Manner.PLAIN;
        // Any other lock needs a wait, however short.
        boolean atOnce = plain && waitMs != null && waitMs == 0;
        List<String> words =
                atOnce
                        ? Lease.words(options.lease, null, options.owner, "LOCK.TRY", name)
                        : Lease.words(options.lease, waitMs, options.owner, "LOCK.ACQUIRE", name);
        if (options.detect && !atOnce) {
            words.add("DETECT");
        }
        if (!plain) {
            words.add(options.manner.name());
        }
        words.addAll(options.place());
        return words;
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
