package claret.error;

import claret.net.ErrorReply;

/** A command of a strict transaction or of a batch was refused, so that nothing of it took effect. */
public final class UndoneException extends ClaretException {
    private static final long serialVersionUID = 1L;

    /** Creates the exception of an error reply. */
    public UndoneException(ErrorReply reply) {
        super(reply);
    }
}
