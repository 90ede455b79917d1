package claret.lock;

import claret.error.ClaretException;

/**
 * The lock was not free in time, or not all parties arrived at the barrier.
 */
public final class NotAcquiredException extends ClaretException {
    private static final long serialVersionUID = 1L;

    /** Creates the exception with a message. */
    public NotAcquiredException(String message) {
        super(message, null);
    }

    @Override
    public boolean isRetryable() {
        return true;
    }
}
