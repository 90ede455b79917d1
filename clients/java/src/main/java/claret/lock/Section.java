package claret.lock;

import claret.Reads;
import claret.Writes;
import claret.error.BusyException;
import claret.error.CancelledException;
import claret.error.ClaretException;
import claret.error.ConnectionException;
import claret.error.UndoneException;
import claret.error.UnknownOutcomeException;
import claret.wire.Convert;
import claret.wire.Lane;
import claret.wire.Requests.Numbers;
import claret.wire.Retry.Failures;
import claret.wire.Script;
import claret.wire.Script.Frame;
import claret.wire.Slot;
import claret.wire.Translate;
import claret.wire.Waits;
import claret.wire.Wire;
import claret.wire.Words;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;

/**
 * Commands on keys of the hash slot of a lock, each with the lock and its release in one request. The
 * lock has no holder when a section is over, so there is no lease, and nothing to lose.
 */
public final class Section implements Reads, Writes {
    private static final List<String> MULTI = List.of("MULTI");
    private static final List<String> EXEC = List.of("EXEC");

    private final Wire wire;
    private final String name;
    private final LockOptions options;
    private volatile OptionalLong token = OptionalLong.empty();

    /** Sections of a lock; see {@link claret.Claret#section}. */
    public Section(Wire wire, String name, LockOptions options) {
        this.wire = wire;
        this.name = name;
        this.options = options;
    }

    /** The fencing token of the last section, for other systems that check it. */
    public OptionalLong token() {
        return token;
    }

    /**
     * Waits in turn for the lock, carries a command out, and releases the lock. If the connection breaks
     * it is sent again, and takes effect once.
     *
     * @throws NotAcquiredException if the lock was not free in time
     * @throws UnknownOutcomeException if an earlier try may still wait for the lock
     */
    @Override
    public Object ask(String... words) {
        List<String> command = Words.inside(words);
        long begunNs = System.nanoTime();
        Failures failures = wire.retry.failures();
        boolean again = false;
        try (Numbers numbers = wire.requests.borrow();
                Lane lane = new Lane(wire)) {
            Frame frame = new Frame(MULTI, EXEC, numbers.next());
            while (true) {
                long askedNs = System.nanoTime();
                Try next = new Try(command, Waits.leftMs(options.timeout, begunNs));
                try {
                    return next.carryOut(lane, frame, again);
                } catch (CancelledException cancelled) {
                    throw new CancelledException(cancelled.getMessage(), again || next.sent);
                } catch (BusyException | ConnectionException | UnknownOutcomeException error) {
                    if (next.isFinal()) {
                        throw error;
                    }
                    again |= next.sent && !(error instanceof BusyException);
                    pause(failures, error, next.sent, askedNs, again);
                }
                if (next.script.isRefused() && !again) {
                    frame = new Frame(MULTI, EXEC, numbers.next());
                }
                lane.beCautious();
            }
        }
    }

    private static void pause(
            Failures failures, ClaretException error, boolean sent, long askedNs, boolean again) {
        try {
            Waits.pause(failures, error, sent, askedNs, again);
        } catch (CancelledException cancelled) {
            throw new CancelledException(cancelled.getMessage(), again);
        }
    }

    private List<String> words(Long waitMs) {
        List<String> words = new ArrayList<>(List.of("LOCK.SECTION", name));
        words.addAll(Owner.waiting(waitMs, options.owner));
        if (options.detect) {
            words.add("DETECT");
        }
        words.addAll(options.place());
        return words;
    }

    /** One try: a transaction, in which an absent value differs from a wait in vain. */
    private final class Try {
        final Script script = new Script(false);
        private final Slot<Object> grant;
        private final Slot<Object> reply;
        private final long longestMs;
        boolean sent;
        private boolean settled;

        Try(List<String> command, Long waitMs) {
            grant = script.defer(any -> any, words(waitMs));
            reply = script.defer(any -> any, command);
            longestMs = Waits.longestMs(waitMs, Waits.GRACE_MS);
        }

        Object carryOut(Lane lane, Frame frame, boolean again) {
            Object row;
            try {
                lane.connect();
                sent = true;
                row = script.exchange(lane, frame, EXEC, longestMs);
            } catch (UndoneException undone) {
                // The error of the command itself says why.
                grant.known();
                reply.known();
                throw undone;
            }
            settled = true;
            if (row == null) {
                String text = "the lock " + name + " was not free in time";
                // The first request may still wait at the server.
                throw again ? new UnknownOutcomeException(text, null) : new NotAcquiredException(text);
            }
            List<?> replies = (List<?>) row;
            token = OptionalLong.of(Convert.integer(replies.get(0)));
            return Translate.checked(replies.get(1));
        }

        /** Whether another try is of no use. */
        boolean isFinal() {
            return settled || script.isScattered();
        }
    }
}
