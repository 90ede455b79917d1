package claret.lock;

import claret.error.UnknownOutcomeException;
import claret.wire.Convert;
import claret.wire.Requests.Numbers;
import claret.wire.Requests.Request;
import claret.wire.Waits;
import claret.wire.Wire;
import claret.wire.Words;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/** A barrier: the parties wait until all have arrived. It is usable again at once. */
public final class Barrier {
    private final Wire wire;
    private final String name;
    private final int parties;

    /** A barrier for a number of parties; see {@link claret.Claret#barrier}. */
    public Barrier(Wire wire, String name, int parties) {
        this.wire = wire;
        this.name = name;
        this.parties = parties;
    }

    /** Waits without limit; see {@link #await(Duration)}. */
    public long await() {
        return await(null);
    }

    /**
     * Waits until all parties have arrived, and returns the number of their generation, the same to all.
     *
     * @throws NotAcquiredException if that took longer, which withdraws the arrival
     * @throws UnknownOutcomeException if that is uncertain because the connection broke in between
     */
    public long await(Duration timeout) {
        Words.checkTimes(timeout);
        try (Numbers numbers = wire.requests.borrow()) {
            Request request = numbers.next();
            Answer answer =
                    Waits.untilAnswered(
                            wire,
                            timeout,
                            (waitMs, again) -> {
                                List<List<String>> commands = List.of(request.announcement(), words(waitMs));
                                return new Answer(Waits.ask(wire, commands, waitMs), again);
                            });
            return settled(answer);
        }
    }

    private record Answer(Object generation, boolean again) {}

    private List<String> words(Long waitMs) {
        List<String> words = new ArrayList<>(List.of("BARRIER.WAIT", name, Integer.toString(parties)));
        words.addAll(List.of("OWNER", Owner.DEFAULT));
        if (waitMs != null) {
            words.addAll(List.of("TIMEOUT", Long.toString(Math.max(1, waitMs))));
        }
        return words;
    }

    private long settled(Answer answer) {
        if (answer.generation() != null) {
            return Convert.integer(answer.generation());
        }
        String text = "not all of " + parties + " parties came to the barrier " + name + " in time";
        // The first request may still wait at the server, and count as an arrival.
        throw answer.again() ? new UnknownOutcomeException(text, null) : new NotAcquiredException(text);
    }
}
