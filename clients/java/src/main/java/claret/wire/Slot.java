package claret.wire;

import claret.error.ClaretException;
import claret.error.ClosedException;
import claret.error.OrderException;
import claret.error.RepeatedException;
import claret.net.ErrorReply;
import java.util.function.Function;

/** Place for the reply of a deferred command. */
public final class Slot<T> {
    private enum State {
        OPEN,
        KNOWN,
        LOST,
        DROPPED
    }

    private final Function<Object, T> convert;
    private volatile State state = State.OPEN;
    private Object reply;

    Slot(Function<Object, T> convert) {
        this.convert = convert;
    }

    /** Puts the reply in; returns its exception if it is an error, and otherwise {@code null}. */
    ClaretException set(Object arrived) {
        reply = arrived;
        state = State.KNOWN;
        return arrived instanceof ErrorReply error ? Translate.error(error) : null;
    }

    void reopen() {
        reply = null;
        state = State.OPEN;
    }

    void lose() {
        state = State.LOST;
    }

    void drop() {
        if (state == State.OPEN) {
            state = State.DROPPED;
        }
    }

    /** The reply as far as it is known; throws it if it is an error. */
    public Object known() {
        return Translate.checked(reply);
    }

    /** The reply as it arrived, an error as a value. */
    Object raw() {
        return reply;
    }

    /** Whether the reply is known. */
    public boolean isKnown() {
        return state == State.KNOWN;
    }

    /** The reply; throws it if it is an error, or why there is none. */
    public T value() {
        return switch (state) {
            case KNOWN -> convert.apply(Translate.checked(reply));
            case OPEN -> throw new OrderException("a write is answered with the commit: read value() after that");
            case DROPPED -> throw new ClosedException("it was rolled back, so that it has no reply");
            case LOST -> throw new RepeatedException("it took effect, but its replies were lost", null);
        };
    }
}
