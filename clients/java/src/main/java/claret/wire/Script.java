package claret.wire;

import claret.error.ClaretException;
import claret.error.OrderException;
import claret.error.RejectedException;
import claret.error.RepeatedException;
import claret.error.UndoneException;
import claret.error.WriteRefusedException;
import claret.net.ErrorReply;
import claret.net.Status;
import claret.wire.Requests.Request;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;

/** Commands of one attempt at a transaction or batch, sent and still to be sent. */
public final class Script {
    /** What opens a script, what makes it take effect, and its request number or {@code null}. */
    public record Frame(List<String> begin, List<String> end, Request request) {}

    private record Unsent(List<String> words, Slot<?> slot) {}

    private final boolean strict;
    private final List<Unsent> unsent = new ArrayList<>();
    private List<Unsent> flying = List.of();
    // All deferred commands, and those that the commit will answer.
    private final List<Slot<?>> slots = new ArrayList<>();
    private final List<Slot<?>> queued = new ArrayList<>();
    private ClaretException fault;
    // The first refusal of a deferred command, which may be why nothing takes effect.
    private ErrorReply refusal;
    private boolean started;

    /** A script in which, if it is strict, a refused command prevents all others. */
    public Script(boolean strict) {
        this.strict = strict;
    }

    /** Adds a command whose reply arrives with the commit. */
    public <T> Slot<T> defer(Function<Object, T> convert, List<String> words) {
        Slot<T> slot = new Slot<>(convert);
        unsent.add(new Unsent(words, slot));
        slots.add(slot);
        return slot;
    }

    /** Number of deferred commands. */
    public int size() {
        return slots.size();
    }

    /** Whether anything was sent. */
    public boolean isStarted() {
        return started;
    }

    /** Commands to send now, of which the last one's reply is awaited. */
    public List<List<String>> take(Frame frame, List<String> last) {
        List<List<String>> commands = new ArrayList<>();
        if (!started) {
            List<Unsent> opening = new ArrayList<>();
            if (frame.request() != null) {
                opening.add(new Unsent(frame.request().announcement(), null));
            }
            opening.add(new Unsent(frame.begin(), null));
            unsent.addAll(0, opening);
        }
        if (last == frame.end() && fault != null) {
            throw fault;
        }
        started = true;
        flying = List.copyOf(unsent);
        unsent.clear();
        flying.forEach(command -> commands.add(command.words()));
        commands.add(last);
        return commands;
    }

    /**
     * Processes the replies to the commands of {@link #take}, and returns the last one. Throws an error
     * that prevents the transaction, or else the error of the last command.
     */
    public Object digest(List<Object> replies) {
        for (int i = 0; i < flying.size(); i++) {
            note(flying.get(i).slot(), replies.get(i));
        }
        Object last = replies.get(flying.size());
        if (last instanceof ErrorReply reply) {
            ClaretException error = Translate.error(reply);
            if (error instanceof UndoneException && fault == null && refusal != null) {
                throw new UndoneException(refusal);
            }
            boolean follows = error instanceof UndoneException || error instanceof RejectedException;
            throw fault != null && follows ? fault : error;
        }
        if (fault != null) {
            throw fault;
        }
        if (last == Status.QUEUED) {
            throw new OrderException("a write is answered with the commit: use write(...) for it");
        }
        return last;
    }

    private void note(Slot<?> slot, Object reply) {
        if (reply == Status.QUEUED) {
            queued.add(slot);
        } else if (reply instanceof ErrorReply error && (slot == null || strict)) {
            ClaretException told = Translate.error(error);
            boolean plain = slot != null && told instanceof RejectedException;
            fault = fault != null ? fault : plain ? new UndoneException(error) : told;
        } else if (slot != null) {
            slot.set(reply);
            if (reply instanceof ErrorReply error && refusal == null) {
                refusal = error;
            }
        }
    }

    /**
     * Distributes the replies of a commit, and returns those of all deferred commands, errors as
     * values.
     *
     * @throws WriteRefusedException if there are errors among them
     */
    public List<Object> settle(Object answered) {
        List<?> replies = answered instanceof List<?> list ? list : List.of();
        if (replies.size() != queued.size()) {
            lose();
            throw new RepeatedException("it took effect before, with other commands", null);
        }
        for (int i = 0; i < queued.size(); i++) {
            queued.get(i).set(replies.get(i));
        }
        List<ClaretException> errors = new ArrayList<>();
        List<Object> values = new ArrayList<>();
        for (Slot<?> slot : slots) {
            values.add(slot.raw());
            if (slot.raw() instanceof ErrorReply error) {
                errors.add(Translate.error(error));
            }
        }
        if (!errors.isEmpty()) {
            throw new WriteRefusedException(errors);
        }
        return values;
    }

    /** Records that the transaction took effect, but that its replies are lost. */
    public void lose() {
        slots.forEach(Slot::lose);
    }

    /** Records that the transaction had no effect. */
    public void drop() {
        slots.forEach(Slot::drop);
    }
}
