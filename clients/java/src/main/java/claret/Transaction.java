package claret;

import claret.error.BusyException;
import claret.error.CancelledException;
import claret.error.ClaretException;
import claret.error.ClosedException;
import claret.error.ConflictException;
import claret.error.ConnectionException;
import claret.error.UnknownOutcomeException;
import claret.lock.Held;
import claret.wire.Convert;
import claret.wire.Lane;
import claret.wire.Requests.Request;
import claret.wire.Script;
import claret.wire.Script.Frame;
import claret.wire.Words;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import java.util.function.LongSupplier;

/**
 * One attempt at a transaction. Reads answer at once and see its own writes. Writes answer a {@link
 * Deferred} and travel with the next read or with the commit. For one thread.
 */
public final class Transaction implements Reads, DeferredWrites {
    private static final List<String> COMMIT = List.of("TXN", "COMMIT");

    private final Lane lane;
    private final Frame frame;
    private final LongSupplier waitMs;
    private final long commitWaitMs;
    private final Script script;
    private boolean open = true;

    Transaction(
            Lane lane, RunOptions options, Request request, LongSupplier waitMs, long commitWaitMs) {
        this.lane = lane;
        frame = new Frame(begin(options), COMMIT, request);
        this.waitMs = waitMs;
        this.commitWaitMs = commitWaitMs;
        script = new Script(options.strict && !options.readonly);
    }

    private static List<String> begin(RunOptions options) {
        List<String> words = new ArrayList<>(List.of("TXN", "BEGIN"));
        if (options.readonly) {
            words.add("READONLY");
            return words;
        }
        words.add("BLIND");
        if (options.strict) {
            words.add("STRICT");
        }
        if (options.update) {
            words.add("FORUPDATE");
        }
        addTime(words, "IDLE", options.idleTimeout);
        addTime(words, "TIMEOUT", options.transactionTimeout);
        return words;
    }

    private static void addTime(List<String> words, String name, Duration time) {
        if (time != null) {
            words.add(name);
            words.add(Long.toString(time.toMillis()));
        }
    }

    @Override
    public Object ask(String... words) {
        return askNow(Words.inside(words));
    }

    /**
     * Sends a read that announces a write of its key: of such transactions one has a key at a time, and
     * the others wait in line.
     */
    public Object askForUpdate(String... words) {
        Words.inside(words);
        return askNow(Words.checked(Words.join(words, "TXN", "FORUPDATE")));
    }

    @Override
    public <T> Deferred<T> write(Function<Object, T> convert, String... words) {
        checkOpen();
        return new Deferred<>(script.defer(convert, Words.inside(words)));
    }

    /**
     * Lets the transaction take effect only if a lock is held until then.
     *
     * @throws claret.lock.LockLostException if it is not held
     */
    public void require(Held lock) {
        long leftMs = Convert.integer(ask("LOCK.HELD", lock.name(), Long.toString(lock.grantToken())));
        if (leftMs <= 0) {
            throw lock.lose();
        }
    }

    /** Sends the writes so far, so that the server can already process them. */
    public void flush() {
        ask("PING");
    }

    private void checkOpen() {
        if (!open) {
            throw new ClosedException("the transaction has ended");
        }
    }

    private Object askNow(List<String> words) {
        checkOpen();
        try {
            return exchange(words, waitMs.getAsLong());
        } catch (ConflictException | BusyException yielded) {
            lane.leaveUnended();
            end();
            throw yielded;
        }
    }

    private Object exchange(List<String> last, long wait) {
        try {
            return script.exchange(lane, frame, last, wait);
        } catch (ClaretException error) {
            open = open && lane.isConnected();
            throw error;
        }
    }

    void commit() {
        checkOpen();
        Object replies;
        if (!script.isStarted()) {
            lane.connect();
        }
        try {
            replies = exchange(COMMIT, commitWaitMs);
        } catch (ConnectionException error) {
            throw new UnknownOutcomeException("the commit's answer was lost: " + error.getMessage(), error);
        } catch (CancelledException error) {
            throw new CancelledException("the thread was interrupted during the commit", true);
        } catch (ClaretException refused) {
            lane.leaveUnended();
            script.drop();
            throw refused;
        } finally {
            open = false;
        }
        script.settle(replies);
    }

    void rollback() {
        if (open && script.isStarted()) {
            lane.leaveUnended();
        }
        end();
    }

    boolean isRefused() {
        return script.isRefused();
    }

    boolean isScattered() {
        return script.isScattered();
    }

    void lose() {
        script.lose();
    }

    private void end() {
        open = false;
        script.drop();
    }
}
