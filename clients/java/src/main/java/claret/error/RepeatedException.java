package claret.error;

import claret.net.ErrorReply;

/** It took effect, once, but its replies are lost. */
public final class RepeatedException extends ClaretException {
    private static final long serialVersionUID = 1L;

    /** Creates the exception of an error reply. */
    public RepeatedException(ErrorReply reply) {
        super(reply);
    }

    /** Creates the exception with a message and the error behind it, or {@code null}. */
    public RepeatedException(String message, Throwable cause) {
        super(message, cause);
    }
}
