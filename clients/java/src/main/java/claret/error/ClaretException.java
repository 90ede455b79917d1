package claret.error;

import claret.net.ErrorReply;

/**
 * Base of the exceptions of this library, with labels that tell a program how to react. All of them
 * are unchecked.
 */
public abstract class ClaretException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    private final String code;

    /** Creates an exception that does not come from an error reply. */
    protected ClaretException(String message, Throwable cause) {
        super(message, cause);
        code = "";
    }

    /** Creates an exception of an error reply of the server. */
    protected ClaretException(ErrorReply reply) {
        super(reply.text());
        code = reply.code();
    }

    /** Whether it had no effect and may succeed when it is run again. */
    public boolean isRetryable() {
        return false;
    }

    /** Whether it is unknown if it took effect. */
    public boolean mayHaveHappened() {
        return false;
    }

    /** Whether the server asks to come back later. */
    public boolean isBusy() {
        return false;
    }

    /** Code of the server's error reply, such as {@code WRONGTYPE}; empty if there was none. */
    public final String code() {
        return code;
    }
}
