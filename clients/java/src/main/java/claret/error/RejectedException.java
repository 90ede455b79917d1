package claret.error;

import claret.net.ErrorReply;

/** Any other error reply: the command was wrong, or the value under its key did not allow it. */
public final class RejectedException extends ClaretException {
    private static final long serialVersionUID = 1L;

    /** Creates the exception of an error reply. */
    public RejectedException(ErrorReply reply) {
        super(reply);
    }
}
