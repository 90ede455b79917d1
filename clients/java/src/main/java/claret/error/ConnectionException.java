package claret.error;

/** The server could not be reached. The request had no effect. */
public final class ConnectionException extends ClaretException {
    private static final long serialVersionUID = 1L;

    /** Creates the exception with a message and the error behind it, or {@code null}. */
    public ConnectionException(String message, Throwable cause) {
        super(message, cause);
    }
}
