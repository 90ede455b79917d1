package claret.error;

import java.util.List;

/**
 * The transaction or batch took effect, except for writes that their key's value does not allow: a
 * counter that would leave its bounds, or a push to what is a set.
 */
public final class WriteRefusedException extends ClaretException {
    private static final long serialVersionUID = 1L;

    private final transient List<ClaretException> errors;

    /** Creates the exception of the errors of the refused writes, one at least. */
    public WriteRefusedException(List<ClaretException> errors) {
        super(text(errors), errors.get(0));
        this.errors = List.copyOf(errors);
    }

    private static String text(List<ClaretException> errors) {
        String more = errors.size() == 1 ? "" : ", and " + (errors.size() - 1) + " more";
        return "committed, but a write was refused: " + errors.get(0).getMessage() + more;
    }

    /** Errors of the refused writes, in the order of the writes. */
    public List<ClaretException> errors() {
        return errors;
    }
}
