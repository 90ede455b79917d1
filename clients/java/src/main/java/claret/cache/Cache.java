package claret.cache;

import claret.error.ClaretException;
import claret.error.ClosedException;
import claret.error.ConnectionException;
import claret.error.OrderException;
import claret.error.UnknownOutcomeException;
import claret.wire.Convert;
import claret.wire.Interrupts;
import claret.wire.Translate;
import claret.wire.Wire;
import claret.wire.Words;
import java.util.Collection;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Answers reads from memory while the server watches what was read, over a connection of its own. Threads
 * may share it.
 *
 * <p>Of two reads of a key the later one never shows an older value. The value may be older than that of
 * the store: ordinarily by the way of a message, and while machines do not hear each other by about five
 * seconds. So a cache has no place in a transaction: its reads must come from the store.
 */
public final class Cache implements AutoCloseable {
    // How long reads wait for an attempt to connect before they do without the cache.
    private static final long JOIN_NS = 3_000_000_000L;

    // Time from an attempt to connect that has failed to the next one.
    private static final long PAUSE_NS = 50_000_000;

    private final Wire wire;
    private final Store store;
    // Commands known to read, by name, and whether they can have several keys.
    private final Map<String, Boolean> reads = new ConcurrentHashMap<>();
    private Link link;
    // The attempt to connect that is under way, or null.
    private CompletableFuture<Void> attempt;
    // When reads no longer wait for the attempt, and when the next one may begin.
    private long joinUntilNs;
    private long notBeforeNs = System.nanoTime();
    private long hits;
    private long misses;
    private long dropped;
    private boolean closed;

    /** Creates a cache, which connects at the first read. */
    public Cache(Wire wire, CacheOptions options) {
        this.wire = wire;
        store = new Store(options);
    }

    /**
     * The reply to a command that reads one key, which is its first argument: from memory if the reply to
     * these words is there. Lists, sets and maps cannot be changed. Without a connection of its own the
     * cache asks over those of the client.
     *
     * <p>A command whose reply depends on time or chance, such as {@code PTTL} or {@code SRANDMEMBER}, is
     * not for a cache.
     *
     * @throws OrderException if the command is no read of one key
     */
    public Object read(String command, String key, String... args) {
        String name = command.toUpperCase(Locale.ROOT);
        List<String> words = Words.single(Words.join(args, name, key));
        wire.checkOpen();
        check(name, args.length == 0);
        join();
        Entry asked = look(words);
        Object reply = asked == null ? Entry.LOST : replyTo(asked);
        return reply == Entry.LOST ? askOutside(words) : Translate.checked(reply);
    }

    /** Value of a string; {@code null} if there is none. */
    public String get(String key) {
        return Convert.text(read("GET", key));
    }

    /** All fields of a hash with their values. */
    public Map<String, String> hgetAll(String key) {
        return Convert.map(read("HGETALL", key));
    }

    /** Numbers until now. */
    public synchronized CacheStats stats() {
        return new CacheStats(hits, misses, dropped);
    }

    /** Drops everything and closes the connection. Reads throw {@link ClosedException} then. */
    @Override
    public void close() {
        Link left;
        synchronized (this) {
            closed = true;
            store.clear();
            left = link;
        }
        if (left != null) {
            left.close();
        }
    }

    /**
     * Finds a request whose reply is kept, or that is under way, or begins one; {@code null} if there is no
     * connection to ask over.
     */
    private synchronized Entry look(List<String> words) {
        if (closed) {
            throw new ClosedException("the cache is closed");
        }
        Entry found = store.find(words);
        boolean kept = found != null && store.isKept(found);
        if (kept && link != null && link.isFresh()) {
            hits++;
            store.use(found);
            return found;
        }
        if (found != null && !kept) {
            hits++;
            return found;
        }
        misses++;
        Entry asked = new Entry(words);
        if (link == null || !link.send(asked)) {
            return null;
        }
        store.begin(asked);
        return asked;
    }

    private static Object replyTo(Entry asked) {
        try {
            return asked.reply.get();
        } catch (InterruptedException interrupted) {
            throw Interrupts.cancelled();
        } catch (ExecutionException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    /**
     * Reads over another connection, whose order with that of the cache is unknown: what the cache has of
     * the key may be older than the reply, and is dropped.
     */
    private Object askOutside(List<String> words) {
        try {
            return Store.frozen(Translate.checked(askAgain(words)));
        } finally {
            synchronized (this) {
                dropped += store.forget(words.get(1));
            }
        }
    }

    /** Asks once more if the reply is lost, which for a read is no more than a lost connection. */
    private Object askAgain(List<String> words) {
        try {
            return wire.command(words);
        } catch (UnknownOutcomeException lost) {
            try {
                return wire.command(words);
            } catch (UnknownOutcomeException again) {
                throw new ConnectionException(again.getMessage(), again);
            }
        }
    }

    /** Refuses a command unless the server's table says that it reads one key, its first argument. */
    private void check(String name, boolean alone) {
        Boolean several = reads.get(name);
        if (several == null) {
            // Operations of types that clients define are in no table, and may write.
            several = readsSeveral(wire.commandInfo(name));
        }
        if (several == null || (several && !alone)) {
            throw new OrderException(name + " is not a command that reads one key, its first argument");
        }
        reads.put(name, several);
    }

    /** Whether a command can have several keys, by its row of the table; {@code null}: it is no read. */
    private static Boolean readsSeveral(List<?> row) {
        boolean isRead =
                row.size() > 4
                        && row.get(2) instanceof Collection<?> flags
                        && flags.contains("readonly")
                        && !flags.contains("movablekeys")
                        && !flags.contains("blocking")
                        && Long.valueOf(1).equals(row.get(3));
        return isRead ? !Long.valueOf(1).equals(row.get(4)) : null;
    }

    /** Begins an attempt to connect, unless there is a connection, and waits a little for its end. */
    private void join() {
        CompletableFuture<Void> under;
        long leftNs;
        synchronized (this) {
            long now = System.nanoTime();
            if (attempt == null && link == null && !closed && now - notBeforeNs >= 0) {
                attempt = new CompletableFuture<>();
                joinUntilNs = now + JOIN_NS;
                Thread thread = new Thread(this::connect, "claret-cache");
                thread.setDaemon(true);
                thread.start();
            }
            under = attempt;
            leftNs = joinUntilNs - now;
        }
        if (under == null || leftNs <= 0) {
            return;
        }
        try {
            under.get(leftNs, TimeUnit.NANOSECONDS);
        } catch (TimeoutException late) {
            // The read does without the cache.
        } catch (InterruptedException interrupted) {
            throw Interrupts.cancelled();
        } catch (ExecutionException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    /** Makes one attempt to connect, and serves the connection until it is lost. */
    private void connect() {
        Link made = null;
        try {
            made = Link.open(wire, this);
        } catch (ClaretException error) {
            // Reads get the error of the client's other connections, if they do no better.
        } finally {
            settle(made);
        }
        if (made == null) {
            return;
        }
        try {
            made.serve();
        } finally {
            synchronized (this) {
                // Nothing tells any more what has changed.
                link = null;
                dropped += store.clear();
            }
            made.fail();
        }
    }

    private void settle(Link made) {
        CompletableFuture<Void> ended;
        boolean late;
        synchronized (this) {
            link = made;
            ended = attempt;
            attempt = null;
            notBeforeNs = System.nanoTime() + (made == null ? PAUSE_NS : 0);
            late = closed && made != null;
        }
        ended.complete(null);
        if (late) {
            made.close();
        }
    }

    /** Takes what the server sends by itself: names of changed keys, or {@code null} for all. */
    void pushed(List<?> message) {
        if (message.size() != 2 || !"invalidate".equals(Convert.text(message.get(0)))) {
            return;
        }
        synchronized (this) {
            if (message.get(1) instanceof List<?> names) {
                names.forEach(name -> dropped += store.forget(Convert.text(name)));
            } else {
                dropped += store.clear();
            }
        }
    }

    /** Takes the reply to a request. */
    void arrived(Entry asked, Object reply) {
        Object frozen = Store.frozen(reply);
        synchronized (this) {
            store.keep(asked, frozen);
        }
        asked.reply.complete(frozen);
    }
}
