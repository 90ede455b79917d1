package claret.error;

/** The transaction, dispatch or client has ended. */
public final class ClosedException extends ClaretException {
    private static final long serialVersionUID = 1L;

    /** Creates the exception with a message. */
    public ClosedException(String message) {
        super(message, null);
    }
}
