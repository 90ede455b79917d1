package claret;

import claret.cache.Cache;
import claret.cache.CacheOptions;
import claret.error.ClaretException;
import claret.lock.Barrier;
import claret.lock.Election;
import claret.lock.Fenced;
import claret.lock.Held;
import claret.lock.Lock;
import claret.lock.LockOptions;
import claret.lock.RetainedLock;
import claret.lock.RetainedOptions;
import claret.lock.Section;
import claret.wire.Retry;
import claret.wire.Translate;
import claret.wire.Wire;
import claret.wire.Words;
import java.time.Duration;

/**
 * A client of Claret. Threads may share it; each call uses a connection of its own.
 *
 * <p>Exceptions are {@link ClaretException}s, which are unchecked and labelled. A thread that is
 * interrupted gives up what it waits for, with {@link claret.error.CancelledException}.
 */
public final class Claret implements Reads, Writes, AutoCloseable {
    private static final Retry RETRY = new Retry(0, Duration.ofSeconds(10));

    private final Wire wire;

    private Claret(Options options) {
        wire =
                new Wire(
                        options.driver,
                        options.addresses,
                        options.setup,
                        options.transactionsMax,
                        options.timeout,
                        RETRY);
    }

    /** A client with these options. It connects when it is first used. */
    public static Claret connect(Options options) {
        return new Claret(options);
    }

    /**
     * Carries out one command. If its reply is lost, a command that only reads is sent again.
     *
     * @throws claret.error.UnknownOutcomeException if the reply of another command is lost: put what
     *     must count once into a batch or transaction
     */
    @Override
    public Object ask(String... words) {
        return Translate.checked(wire.command(Words.single(words)));
    }

    /** Runs a function in a strict transaction until it commits: for ten seconds at most. */
    public <T, X extends Exception> T run(TransactionBody<T, X> body) throws X {
        return run(body, RunOptions.strict());
    }

    /**
     * Runs a function in a transaction until it commits, and returns its value. The function may be
     * called many times: it must do nothing but use the transaction.
     *
     * <p>The transaction takes effect once, also if a connection breaks: then the server is asked
     * whether it did.
     *
     * @throws claret.error.ConflictException if it had to give way at each attempt
     * @throws claret.error.UndoneException if a command of a strict transaction was refused
     * @throws claret.error.WriteRefusedException if a write of a lenient one was refused
     * @throws claret.error.UnknownOutcomeException if the server could not be asked
     */
    public <T, X extends Exception> T run(TransactionBody<T, X> body, RunOptions options) throws X {
        return new Runner<>(wire, body, options).run();
    }

    /** Runs a function of reads that all show one instant, without locks. */
    public <T, X extends Exception> T snapshot(SnapshotBody<T, X> body) throws X {
        return run(body::read, RunOptions.strict().readOnly());
    }

    /** What is read in a snapshot. It may be called many times. */
    @FunctionalInterface
    public interface SnapshotBody<T, X extends Exception> {
        /** Reads, and returns the value of the snapshot. */
        T read(Reads snapshot) throws X;
    }

    /** Begins to collect commands that take effect together. */
    public Batch batch() {
        return new Batch(wire);
    }

    /** Commands that are sent without waiting for replies. */
    public Dispatch dispatch() {
        return new Dispatch(wire);
    }

    /**
     * Waits in turn for a lock, and returns it; it is renewed until it is closed.
     *
     * @throws claret.lock.NotAcquiredException if it was not free in time
     */
    public Lock lock(String name, LockOptions options) {
        return Lock.acquire(wire, name, options);
    }

    /** A lock that stays with this process until another client wants it, for all its threads. */
    public RetainedLock retained(String name, RetainedOptions options) {
        return new RetainedLock(wire, name, options);
    }

    /**
     * Commands on keys of the hash slot of a lock, each with the lock and its release in one request. Of
     * the options, timeout, owner, sharing and detection are used.
     */
    public Section section(String name, LockOptions options) {
        return new Section(wire, name, options);
    }

    /** Commands that are refused if a later holder of the lock has written to their keys. */
    public Fenced fenced(Held lock) {
        return new Fenced(wire, lock);
    }

    /** An election: candidacy for it, its leader, and the sequence of leaders. */
    public Election election(String name) {
        return new Election(wire, name);
    }

    /** A barrier for a number of parties. */
    public Barrier barrier(String name, int parties) {
        return new Barrier(wire, name, parties);
    }

    /** A cache of 10,000 replies to reads. */
    public Cache cache() {
        return cache(CacheOptions.defaults());
    }

    /** A cache of replies to reads, which the server keeps up to date. It ends with the client. */
    public Cache cache(CacheOptions options) {
        return new Cache(wire, options);
    }

    /** Closes the connections: what is under way ends with an exception. Locks end with their leases. */
    @Override
    public void close() {
        wire.close();
    }
}
