package claret.error;

import claret.net.ErrorReply;

/** Too many requests wait, at the server or for a connection. Nothing happened; try again later. */
public final class BusyException extends ClaretException {
    private static final long serialVersionUID = 1L;

    /** Creates the exception of an error reply. */
    public BusyException(ErrorReply reply) {
        super(reply);
    }

    /** Creates the exception with a message. */
    public BusyException(String message) {
        super(message, null);
    }

    @Override
    public boolean isRetryable() {
        return true;
    }

    @Override
    public boolean isBusy() {
        return true;
    }
}
