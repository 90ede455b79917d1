package claret.lock;

/** What is held under a fencing token: a lock, a stay in a retained one, or the leadership. */
public interface Held {
    /** Name of the lock or election. */
    String name();

    /** The fencing token: larger than those of all earlier holders. */
    long token();

    /** The token by which the server knows the holder. */
    default long grantToken() {
        return token();
    }

    /** Whether it can be relied on, by this machine's monotonic clock. */
    boolean isHeld();

    /** Throws {@link LockLostException} unless it can be relied on. */
    default void require() {
        if (!isHeld()) {
            throw new LockLostException("the lock " + name() + " is no longer held");
        }
    }

    /** Marks it as lost, and returns the exception that says so. */
    LockLostException lose();
}
