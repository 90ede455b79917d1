package claret.wire;

import claret.error.BusyException;
import claret.error.CancelledException;
import claret.error.ClosedException;
import claret.error.ConnectionException;
import claret.error.RejectedException;
import claret.error.UnknownOutcomeException;
import claret.net.Address;
import claret.net.Connection;
import claret.net.Driver;
import claret.net.Setup;
import java.time.Duration;
import java.util.Collection;
import java.util.Collections;
import java.util.Deque;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;

/** Connections of a client, idle and new, and what else its parts share. */
public final class Wire implements AutoCloseable {
    private static final int IDLE_MAX = 32;

    private final Driver driver;
    private final List<Address> addresses;
    private final Setup setup;
    private final Semaphore transactions;
    private final Deque<Connection> idle = new ConcurrentLinkedDeque<>();
    private final ExecutorService helpers = Executors.newCachedThreadPool(Wire::helper);
    // Kinds of openings that connections have accepted.
    private final Map<Connection, Set<String>> accepted = Collections.synchronizedMap(new WeakHashMap<>());
    // Those in use; those that broke are forgotten with their users.
    private final Set<Connection> lent =
            Collections.newSetFromMap(Collections.synchronizedMap(new WeakHashMap<>()));
    private volatile int current;
    private volatile boolean closed;

    /** Longest wait for a reply, in milliseconds. */
    public final long timeoutMs;

    /** Attempts at what is repeated by itself. */
    public final Retry retry;

    /** Request numbers. */
    public final Requests requests = new Requests();

    /** Shares a driver's connections, of which transactions use a limited number. */
    public Wire(
            Driver driver,
            List<Address> addresses,
            Setup setup,
            int transactionsMax,
            Duration timeout,
            Retry retry) {
        this.driver = driver;
        this.addresses = List.copyOf(addresses);
        this.setup = setup;
        this.retry = retry;
        transactions = new Semaphore(transactionsMax, true);
        timeoutMs = timeout.toMillis();
    }

    /** An idle connection, or a new one to the first server that answers. */
    public Connection take() {
        checkOpen();
        for (Connection found = idle.poll(); found != null; found = idle.poll()) {
            if (found.isAlive()) {
                lent.add(found);
                return found;
            }
            found.close();
        }
        return open(setup.connectTimeout().toMillis());
    }

    /** Throws {@link ClosedException} if the client is closed. */
    public void checkOpen() {
        if (closed) {
            throw new ClosedException("the client is closed");
        }
    }

    /** A new connection, to which each server has some milliseconds. */
    public Connection open(long limitMs) {
        checkOpen();
        Duration limit = Duration.ofMillis(Math.min(limitMs, setup.connectTimeout().toMillis()));
        Setup now = setup.now(limit);
        ConnectionException last = null;
        int first = current;
        for (int i = 0; i < addresses.size(); i++) {
            int index = (first + i) % addresses.size();
            try {
                Connection connection = driver.open(addresses.get(index), now);
                current = index;
                lent.add(connection);
                if (closed) {
                    connection.close();
                }
                return connection;
            } catch (ConnectionException error) {
                last = error;
            }
        }
        throw last;
    }

    boolean hasAccepted(Connection connection, String kind) {
        Set<String> kinds = accepted.get(connection);
        return kinds != null && kinds.contains(kind);
    }

    void accept(Connection connection, String kind) {
        accepted.computeIfAbsent(connection, fresh -> ConcurrentHashMap.newKeySet()).add(kind);
    }

    /** Does in a thread of its own what the calling thread must be able to give up. */
    <T> Future<T> elsewhere(Callable<T> task) {
        checkOpen();
        try {
            return helpers.submit(task);
        } catch (RejectedExecutionException over) {
            throw new ClosedException("the client is closed");
        }
    }

    private static Thread helper(Runnable task) {
        Thread thread = new Thread(task, "claret-wait");
        thread.setDaemon(true);
        return thread;
    }

    /** Keeps a connection for later; without outstanding replies. */
    public void giveBack(Connection connection) {
        lent.remove(connection);
        if (closed || idle.size() >= IDLE_MAX) {
            connection.close();
        } else {
            idle.push(connection);
        }
    }

    /** Waits in line for one of the connections that transactions may use. */
    public void enter(long waitMs) {
        checkOpen();
        try {
            if (!transactions.tryAcquire(Math.max(0, waitMs), TimeUnit.MILLISECONDS)) {
                throw new BusyException("all connections for transactions are in use");
            }
        } catch (InterruptedException interrupted) {
            throw Interrupts.cancelled();
        }
    }

    /** Lets another transaction use a connection. */
    public void leave() {
        transactions.release();
    }

    /** Sends commands over a connection of their own and returns the replies, errors as values. */
    public List<Object> exchange(List<List<String>> commands, long waitMs) {
        try (Lane lane = new Lane(this)) {
            return lane.exchange(commands, true, waitMs);
        }
    }

    /** The same over a new connection, within these milliseconds each to connect and to answer. */
    public List<Object> exchangeFresh(List<List<String>> commands, long limitMs) {
        try (Lane lane = new Lane(this, Math.max(1, limitMs))) {
            return lane.exchange(commands, true, limitMs);
        }
    }

    /**
     * Carries out a command. A command that only reads is sent again if its reply is lost.
     *
     * @throws UnknownOutcomeException if the reply to another one is lost
     */
    public Object command(List<String> words) {
        Retry.Attempts attempts = retry.attempts();
        ConnectionException last = null;
        while (attempts.next()) {
            Connection connection;
            try {
                connection = take();
            } catch (ConnectionException error) {
                last = error;
                continue;
            }
            try {
                connection.send(List.of(words));
                Object reply = connection.receive(timeoutMs);
                giveBack(connection);
                return reply;
            } catch (CancelledException cancelled) {
                throw new CancelledException("the thread was interrupted", true);
            } catch (ConnectionException error) {
                if (!onlyReads(words)) {
                    throw new UnknownOutcomeException("the reply was lost: " + error.getMessage(), error);
                }
                last = error;
            }
        }
        throw last;
    }

    boolean onlyReads(List<String> words) {
        try {
            List<?> row = commandInfo(words.get(0));
            return row.size() > 2
                    && row.get(2) instanceof Collection<?> flags
                    && flags.contains("readonly");
        } catch (ConnectionException | UnknownOutcomeException | BusyException | RejectedException error) {
            return false;
        }
    }

    /** The row of a command in the server's table; empty if there is none. */
    public List<?> commandInfo(String name) {
        List<String> words = List.of("COMMAND", "INFO", name.toLowerCase(Locale.ROOT));
        Object reply = Translate.checked(exchange(List.of(words), timeoutMs).get(0));
        boolean known = reply instanceof List<?> rows && !rows.isEmpty() && rows.get(0) instanceof List<?>;
        return known ? (List<?>) ((List<?>) reply).get(0) : List.of();
    }

    @Override
    public void close() {
        closed = true;
        for (Connection found = idle.poll(); found != null; found = idle.poll()) {
            found.close();
        }
        for (Connection used : lent.toArray(new Connection[0])) {
            used.close();
        }
        helpers.shutdown();
        driver.close();
    }
}
