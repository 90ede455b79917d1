package claret.lock;

import claret.error.ClaretException;
import claret.net.ErrorReply;

/**
 * The lock is no longer held: its lease has ended, and another client may hold it. A fenced
 * command had no effect.
 */
public final class LockLostException extends ClaretException {
    private static final long serialVersionUID = 1L;

    /** Creates the exception of an error reply. */
    public LockLostException(ErrorReply reply) {
        super(reply);
    }

    /** Creates the exception with a message. */
    public LockLostException(String message) {
        super(message, null);
    }
}
