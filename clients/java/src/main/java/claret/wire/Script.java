package claret.wire;

import claret.error.ClaretException;
import claret.error.OrderException;
import claret.error.RejectedException;
import claret.error.RepeatedException;
import claret.error.UndoneException;
import claret.error.UnknownOutcomeException;
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
    public record Frame(List<String> begin, List<String> end, Request request) {
        private List<List<String>> opening() {
            return request == null ? List.of(begin) : List.of(request.announcement(), begin);
        }

        private String kind() {
            return (request == null ? "" : "CLIENT REQUEST, ") + String.join(" ", begin);
        }
    }

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
    private boolean scattered;
    private boolean refused;

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

    /** Whether anything was sent. */
    public boolean isStarted() {
        return started;
    }

    /** Begins anew, with the same commands: nothing is known of an earlier try. */
    public void restart() {
        unsent.addAll(0, flying);
        flying = List.of();
        queued.clear();
        fault = null;
        refusal = null;
        started = false;
        refused = false;
        slots.forEach(Slot::reopen);
    }

    /**
     * Sends what is still to be sent and a last command, and returns the last one's reply. Throws an
     * error that prevents the transaction, or else the error of the last command.
     *
     * <p>Commands behind a refused opening would be carried out singly. An opening is therefore sent
     * alone until the connection has accepted one of its kind.
     */
    public Object exchange(Lane lane, Frame frame, List<String> last, long waitMs) {
        List<List<String>> opening = started ? List.of() : frame.opening();
        if (!opening.isEmpty() && !lane.hasAccepted(frame.kind())) {
            checkOpened(lane, opening, lane.exchange(opening, true, waitMs), null);
            started = true;
            lane.accept(frame.kind());
            opening = List.of();
        }
        if (last == frame.end() && fault != null) {
            throw fault;
        }
        List<List<String>> commands = new ArrayList<>(opening);
        boolean first = !started;
        started = true;
        flying = List.copyOf(unsent);
        unsent.clear();
        flying.forEach(command -> commands.add(command.words()));
        commands.add(last);
        List<Object> replies = lane.exchange(commands, first, waitMs);
        checkOpened(lane, opening, replies, last == frame.end() ? List.of() : last);
        return digest(replies.subList(opening.size(), replies.size()));
    }

    /** Whether the opening was refused: then commands behind it may have used its number up. */
    public boolean isRefused() {
        return refused;
    }

    /** Whether commands may have been carried out singly, as their opening was refused. */
    public boolean isScattered() {
        return scattered;
    }

    /** Throws the refusal of an opening, with commands behind it unless {@code last} is null. */
    private void checkOpened(
            Lane lane, List<List<String>> opening, List<Object> replies, List<String> last) {
        for (int i = 0; i < opening.size(); i++) {
            if (replies.get(i) instanceof ErrorReply error) {
                lane.discard();
                refused = true;
                boolean begun = !(replies.get(opening.size() - 1) instanceof ErrorReply);
                scattered = last != null && hasEffect(lane, opening.size(), replies, last, begun);
                if (scattered) {
                    throw new UnknownOutcomeException(
                            "it was not opened, but commands may have been carried out singly: " + error.text(),
                            null);
                }
                throw Translate.error(error);
            }
        }
    }

    /** Whether commands behind a refused opening changed something; no words: the last one ends it. */
    private static boolean hasEffect(
            Lane lane, int from, List<Object> replies, List<String> last, boolean begun) {
        int end = replies.size() - 1;
        boolean ended = last.isEmpty();
        if (!(replies.get(end) instanceof ErrorReply) && (ended || (!begun && !lane.onlyReads(last)))) {
            return true;
        }
        return !begun && replies.subList(from, end).stream().anyMatch(r -> !(r instanceof ErrorReply));
    }

    private Object digest(List<Object> replies) {
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
        } else if (reply instanceof ErrorReply error && strict) {
            ClaretException told = Translate.error(error);
            boolean plain = told instanceof RejectedException;
            fault = fault != null ? fault : plain ? new UndoneException(error) : told;
        } else {
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
