package claret;

import claret.error.BusyException;
import claret.error.CancelledException;
import claret.error.ClaretException;
import claret.error.ConnectionException;
import claret.error.OrderException;
import claret.error.RepeatedException;
import claret.error.UnknownOutcomeException;
import claret.lock.Held;
import claret.wire.Lane;
import claret.wire.Requests.Numbers;
import claret.wire.Retry.Attempts;
import claret.wire.Script;
import claret.wire.Script.Frame;
import claret.wire.Wire;
import claret.wire.Words;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.Function;

/**
 * Commands that take effect together, over any keys, in one round trip. It has a request number: if the
 * connection breaks it is sent again, and takes effect once.
 */
public final class Batch implements DeferredWrites {
    private final Wire wire;
    private final List<String> end = new ArrayList<>(List.of("EXEC"));
    private final Script script = new Script(false);
    private boolean executed;

    Batch(Wire wire) {
        this.wire = wire;
    }

    @Override
    public <T> Deferred<T> write(Function<Object, T> convert, String... words) {
        checkOpen();
        return new Deferred<>(script.defer(convert, Words.inside(words)));
    }

    /** Makes the batch depend on a key having a text; {@code null}: on the key being absent. */
    public Batch guard(String key, String text) {
        checkOpen();
        end.addAll(text == null ? List.of("NX", key) : List.of("IFEQ", key, text));
        return this;
    }

    /** Makes the batch depend on a key being present. */
    public Batch guardPresent(String key) {
        checkOpen();
        end.addAll(List.of("XX", key));
        return this;
    }

    /**
     * Carries all of the batch, on keys of one hash slot, out under a lock's fencing token: it throws
     * {@link claret.lock.LockLostException} if a later holder has written there.
     */
    public Batch fence(Held lock) {
        write("FENCE", lock.name(), Long.toString(lock.token()));
        return this;
    }

    private void checkOpen() {
        if (executed) {
            throw new OrderException("the batch was executed: begin another one");
        }
    }

    /**
     * Carries the commands out, and returns their replies, or nothing if a guard did not hold.
     *
     * @throws claret.error.WriteRefusedException if there are errors among the replies
     * @throws claret.error.UndoneException if a command was refused when it was sent
     * @throws RepeatedException if it took effect, but the replies are lost
     * @throws UnknownOutcomeException if the server could not be reached again
     */
    public Optional<List<Object>> execute() {
        checkOpen();
        executed = true;
        Attempts attempts = wire.retry.attempts();
        wire.enter(attempts.leftMs());
        try (Numbers numbers = wire.requests.borrow();
                Lane lane = new Lane(wire)) {
            Object replies = carryOut(attempts, numbers, lane);
            return replies == null ? Optional.empty() : Optional.of(script.settle(replies));
        } finally {
            wire.leave();
            script.drop();
        }
    }

    private Object carryOut(Attempts attempts, Numbers numbers, Lane lane) {
        Frame frame = new Frame(List.of("MULTI"), end, numbers.next());
        ClaretException last = null;
        boolean uncertain = false;
        while (attempts.next()) {
            boolean sent = false;
            script.restart();
            try {
                lane.connect();
                sent = true;
                return script.exchange(lane, frame, end, wire.timeoutMs);
            } catch (RepeatedException error) {
                script.lose();
                throw error;
            } catch (ConnectionException | UnknownOutcomeException error) {
                if (script.isScattered()) {
                    script.lose();
                    throw error;
                }
                uncertain |= sent;
                last = error;
            } catch (CancelledException error) {
                throw sent || uncertain ? new CancelledException(error.getMessage(), true) : error;
            } catch (BusyException error) {
                last = error;
            }
            // The number may be used up, and is not needed: its commands were not sent before.
            if (script.isRefused() && !uncertain) {
                frame = new Frame(List.of("MULTI"), end, numbers.next());
            }
            lane.beCautious();
        }
        throw uncertain ? new UnknownOutcomeException(last.getMessage(), last) : last;
    }
}
