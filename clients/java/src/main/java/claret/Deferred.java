package claret;

import claret.error.OrderException;
import claret.wire.Slot;

/**
 * The reply of a write in a transaction or batch: known once that has taken effect.
 *
 * <p>It is not the reply itself, and cannot be used as one by mistake: turning it into text, comparing
 * it and using it as a key of a map throw {@link OrderException}.
 */
public final class Deferred<T> {
    private final Slot<T> slot;

    Deferred(Slot<T> slot) {
        this.slot = slot;
    }

    /**
     * The reply; throws it if it is an error.
     *
     * @throws OrderException before the commit
     * @throws claret.error.ClosedException if the transaction was rolled back
     * @throws claret.error.RepeatedException if it took effect, but the replies were lost
     */
    public T value() {
        return slot.value();
    }

    /** Whether the reply has arrived. */
    public boolean isKnown() {
        return slot.isKnown();
    }

    private OrderException misused() {
        return new OrderException(
                "this is not the reply, which comes later: read value() after the commit");
    }

    @Override
    public String toString() {
        throw misused();
    }

    @Override
    public boolean equals(Object other) {
        if (this == other) {
            return true;
        }
        throw misused();
    }

    @Override
    public int hashCode() {
        throw misused();
    }
}
