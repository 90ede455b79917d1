package claret;

import claret.error.BusyException;
import claret.error.ClaretException;
import claret.error.ConflictException;
import claret.error.ConnectionException;
import claret.error.RepeatedException;
import claret.error.UnknownOutcomeException;
import claret.net.ErrorReply;
import claret.wire.Convert;
import claret.wire.Lane;
import claret.wire.Requests;
import claret.wire.Requests.Numbers;
import claret.wire.Requests.Request;
import claret.wire.Retry;
import claret.wire.Retry.Attempts;
import claret.wire.Translate;
import claret.wire.Wire;
import java.util.List;

/** Runs a function in a transaction until it commits. */
final class Runner<T, X extends Exception> {
    private final Wire wire;
    private final TransactionBody<T, X> body;
    private final RunOptions options;
    private final Retry retry;

    Runner(Wire wire, TransactionBody<T, X> body, RunOptions options) {
        this.wire = wire;
        this.body = body;
        this.options = options;
        retry = new Retry(options.attemptsMax, options.deadline);
    }

    T run() throws X {
        Attempts attempts = retry.attempts();
        wire.enter(attempts.leftMs());
        try (Numbers numbers = options.once == null ? wire.requests.borrow() : Requests.once(options.once);
                Lane lane = new Lane(wire)) {
            return run(attempts, numbers, lane);
        } finally {
            wire.leave();
        }
    }

    private T run(Attempts attempts, Numbers numbers, Lane lane) throws X {
        Request request = options.readonly ? null : numbers.next();
        if (options.once != null) {
            // Its only number must not be used up by a command behind a refused opening.
            lane.beCautious();
        }
        ClaretException last = null;
        while (attempts.next()) {
            Transaction tx = new Transaction(lane, options, request, () -> waitMs(attempts), wire.timeoutMs);
            boolean returned = false;
            T value = null;
            try {
                value = body.run(tx);
                returned = true;
                tx.commit();
                return value;
            } catch (UnknownOutcomeException error) {
                if (!returned || tx.isScattered()) {
                    throw error;
                }
                if (options.readonly) {
                    return value;
                }
                if (tookEffect(request, error)) {
                    tx.lose();
                    return ofThatAttempt(value, error);
                }
                // The old number is used up: it will never take effect.
                request = numbers.next();
                last = error;
            } catch (ConflictException error) {
                if (error.code().equals("VOIDED")) {
                    request = numbers.next();
                }
                last = error;
            } catch (BusyException | ConnectionException error) {
                last = error;
            } finally {
                if (tx.isRefused() && request != null && options.once == null) {
                    request = numbers.next();
                }
                tx.rollback();
            }
        }
        throw inTheEnd(last);
    }

    private long waitMs(Attempts attempts) {
        return Math.max(1, Math.min(wire.timeoutMs, attempts.leftMs()));
    }

    /** The value, unless another process may have had the effect. */
    private T ofThatAttempt(T value, ClaretException error) {
        if (options.once != null) {
            throw new RepeatedException("it took effect, by this run or by an earlier one", error);
        }
        return value;
    }

    private static ClaretException inTheEnd(ClaretException last) {
        // The outcome of the last attempt is known by now: it has none.
        return last.mayHaveHappened()
                ? new ConnectionException("the connection broke at each attempt: " + last.getMessage(), last)
                : last;
    }

    /**
     * Asks the server whether a commit whose answer was lost took effect. The question itself makes that
     * certain: if the server does not know the number, the lost commit can never take effect any more.
     */
    private boolean tookEffect(Request request, UnknownOutcomeException lost) {
        String trouble = "the server could not be asked";
        for (Attempts attempts = wire.retry.attempts(); attempts.next(); ) {
            try {
                Object reply = wire.exchange(List.of(request.question()), wire.timeoutMs).get(0);
                if (!(reply instanceof ErrorReply error)) {
                    return Convert.truth(reply);
                }
                trouble = "asking was refused: " + error.text();
                if (!Translate.error(error).isRetryable()) {
                    break;
                }
            } catch (ConnectionException error) {
                trouble = "the server could not be asked: " + error.getMessage();
            }
        }
        throw new UnknownOutcomeException(lost.getMessage() + "; " + trouble, lost);
    }
}
