package claret.error;

import claret.net.ErrorReply;

/** The outcome of a request was lost, and asking the server did not help. Never retried silently. */
public final class UnknownOutcomeException extends ClaretException {
    private static final long serialVersionUID = 1L;

    /** Creates the exception of an error reply. */
    public UnknownOutcomeException(ErrorReply reply) {
        super(reply);
    }

    /** Creates the exception with a message and the error behind it, or {@code null}. */
    public UnknownOutcomeException(String message, Throwable cause) {
        super(message, cause);
    }

    @Override
    public boolean mayHaveHappened() {
        return true;
    }
}
