package claret.error;

import claret.net.ErrorReply;

/** The transaction had to give way to another one. It had no effect; run it again. */
public final class ConflictException extends ClaretException {
    private static final long serialVersionUID = 1L;

    /** Creates the exception of an error reply. */
    public ConflictException(ErrorReply reply) {
        super(reply);
    }

    /** Creates the exception with a message. */
    public ConflictException(String message) {
        super(message, null);
    }

    @Override
    public boolean isRetryable() {
        return true;
    }
}
