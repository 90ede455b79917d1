package claret.error;

/** The calling thread was interrupted. Its interrupt flag is set. */
public final class CancelledException extends ClaretException {
    private static final long serialVersionUID = 1L;

    private final boolean mayHaveHappened;

    /** Creates the exception; the label says whether the request may have taken effect. */
    public CancelledException(String message, boolean mayHaveHappened) {
        super(message, null);
        this.mayHaveHappened = mayHaveHappened;
    }

    @Override
    public boolean mayHaveHappened() {
        return mayHaveHappened;
    }
}
