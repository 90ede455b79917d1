package claret.lock;

import claret.error.ClaretException;
import claret.net.ErrorReply;

/**
 * Waiting for the lock would have closed a cycle of waiting clients. It had no effect:
 * release the locks that you hold, and begin anew.
 */
public final class DeadlockException extends ClaretException {
    private static final long serialVersionUID = 1L;

    /** Creates the exception of an error reply. */
    public DeadlockException(ErrorReply reply) {
        super(reply);
    }

    @Override
    public boolean isRetryable() {
        return true;
    }
}
