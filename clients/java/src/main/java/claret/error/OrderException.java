package claret.error;

/** A deferred reply was used as if it were the reply, or an operation is not allowed at this point. */
public final class OrderException extends ClaretException {
    private static final long serialVersionUID = 1L;

    /** Creates the exception with a message. */
    public OrderException(String message) {
        super(message, null);
    }
}
