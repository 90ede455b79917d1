package claret.lock;

import claret.error.BusyException;
import claret.error.CancelledException;
import claret.error.ConnectionException;
import claret.error.RejectedException;
import claret.error.UnknownOutcomeException;
import claret.wire.Convert;
import claret.wire.Requests.Numbers;
import claret.wire.Requests.Request;
import claret.wire.Translate;
import claret.wire.Waits;
import claret.wire.Waits.End;
import claret.wire.Wire;
import claret.wire.Words;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;

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
     * A thread that is interrupted takes its arrival back; if the arrival counts all the same, this
     * returns.
     *
     * @throws NotAcquiredException if that took longer, which withdraws the arrival
     * @throws UnknownOutcomeException if that is uncertain because the connection broke in between
     * @throws CancelledException if the thread was interrupted; it may have happened unless the server
     *     has confirmed that the arrival does not count
     */
    public long await(Duration timeout) {
        Words.checkTimes(timeout);
        Numbers numbers = wire.requests.borrow();
        Arrival arrival = new Arrival(numbers.next());
        try {
            Object generation = Waits.untilAnswered(wire, timeout, arrival::asked);
            if (generation == null) {
                generation = arrival.settled();
            }
            if (generation == null) {
                throw new NotAcquiredException(arrival.missing());
            }
            return Convert.integer(generation);
        } catch (CancelledException cancelled) {
            Object generation = arrival.withdrawn(numbers, cancelled);
            numbers = null;
            return Convert.integer(generation);
        } finally {
            if (numbers != null) {
                numbers.close();
            }
        }
    }

    /** One arrival, under a request number. */
    private final class Arrival {
        private final Request request;
        private boolean lost;
        private Waits.Left left;

        Arrival(Request request) {
            this.request = request;
        }

        Object asked(Long waitMs, boolean again) {
            List<List<String>> commands = List.of(request.announcement(), words(waitMs));
            try {
                return Waits.ask(wire, commands, waitMs, Waits.GRACE_MS, given -> left = given);
            } catch (UnknownOutcomeException error) {
                lost = true;
                throw error;
            }
        }

        String missing() {
            return "not all of " + parties + " parties came to the barrier " + name + " in time";
        }

        /**
         * The generation of an arrival whose wait has ended in vain, if it counts all the same because
         * it was on its way to the log: then that is the reply to any write under its number.
         */
        Object settled() {
            if (lost) {
                // The first request may still wait at the server, and count as an arrival.
                throw new UnknownOutcomeException(missing(), null);
            }
            List<String> words = List.of("LOCK.RELEASE", name, "0");
            List<List<String>> commands = List.of(request.announcement(), words);
            try {
                Object reply = Translate.lastOf(wire.exchange(commands, wire.timeoutMs));
                return Convert.truth(reply) ? reply : null;
            } catch (RejectedException error) {
                // A user without the right to ask goes by the first answer.
                return null;
            } catch (BusyException | ConnectionException error) {
                throw new UnknownOutcomeException(missing(), error);
            }
        }

        /** The generation, if an arrival that is given up counts all the same. */
        Object withdrawn(Numbers numbers, CancelledException cancelled) {
            AtomicReference<End> found = new AtomicReference<>(new End(left == null, null));
            Waits.remains(
                    wire,
                    () -> {
                        try {
                            End end = left == null ? found.get() : left.end();
                            boolean vain = left != null && end.answered() && end.answer() == null;
                            found.set(vain ? new End(true, settled()) : end);
                        } finally {
                            numbers.close();
                        }
                    });
            End end = found.get();
            if (end.answer() != null) {
                return end.answer();
            }
            if (lost || !end.answered()) {
                throw new CancelledException(cancelled.getMessage(), true);
            }
            throw cancelled;
        }
    }

    private List<String> words(Long waitMs) {
        List<String> words = new ArrayList<>(List.of("BARRIER.WAIT", name, Integer.toString(parties)));
        words.addAll(Owner.waiting(waitMs, null));
        return words;
    }
}
