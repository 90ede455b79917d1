package claret.cache;

import claret.error.ClaretException;
import claret.net.Connection;
import claret.wire.Translate;
import claret.wire.Wire;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;

/** A connection on which the server watches what is read. */
final class Link {
    // Time between requests that show whether the server still answers.
    private static final long BEAT_NS = 500_000_000;

    // Age of the newest request with an answer up to which kept replies count: after that, notices of
    // changes may be on their way, or the process may have been stopped.
    private static final long FRESH_NS = 2_000_000_000;

    // Time without a reply after which the connection is lost.
    private static final long SILENCE_MS = 10_000;

    // Most requests without a reply; further reads do without the cache.
    private static final int UNDER_WAY_MAX = 4096;

    private static final List<String> BEAT = List.of("PING");

    private final Connection connection;
    private final Cache cache;
    private final List<Entry> queue = new ArrayList<>();
    private final Deque<Sent> waiting = new ArrayDeque<>();
    private long heardNs = System.nanoTime();
    private boolean ended;

    /** A request that was sent; without an entry it is one for a sign of life. */
    private record Sent(Entry entry, long atNs) {}

    private Link(Connection connection, Cache cache) {
        this.connection = connection;
        this.cache = cache;
    }

    /** Connects, and asks the server to watch what is read. */
    static Link open(Wire wire, Cache cache) {
        Connection connection = wire.open(Long.MAX_VALUE);
        boolean done = false;
        try {
            connection.onPush(cache::pushed);
            connection.send(List.of(List.of("CLIENT", "TRACKING", "ON")));
            Translate.checked(connection.receive(wire.timeoutMs));
            done = true;
            return new Link(connection, cache);
        } finally {
            if (!done) {
                connection.close();
            }
        }
    }

    /** Whether the server was heard of a short time ago. */
    synchronized boolean isFresh() {
        return System.nanoTime() - heardNs < FRESH_NS;
    }

    /** Lines a request up; returns whether there was room. */
    synchronized boolean send(Entry asked) {
        if (ended || queue.size() + waiting.size() >= UNDER_WAY_MAX) {
            return false;
        }
        queue.add(asked);
        notifyAll();
        return true;
    }

    /** Carries requests and replies until the connection breaks. */
    void serve() {
        Thread writer = new Thread(this::write, "claret-cache-send");
        writer.setDaemon(true);
        writer.start();
        try {
            for (Object reply = connection.receive(SILENCE_MS); ; reply = connection.receive(SILENCE_MS)) {
                Entry asked = answered();
                if (asked != null) {
                    cache.arrived(asked, reply);
                }
            }
        } catch (ClaretException lost) {
            // The cache drops what it holds, and connects again.
        } finally {
            close();
        }
    }

    /** Takes the request whose reply is there. */
    private synchronized Entry answered() {
        Sent first = waiting.remove();
        heardNs = first.atNs();
        return first.entry();
    }

    private void write() {
        try {
            for (List<List<String>> packet = packet(); packet != null; packet = packet()) {
                connection.send(packet);
            }
        } catch (ClaretException lost) {
            // The reader finds the connection closed.
            close();
        } catch (InterruptedException interrupted) {
            close();
        }
    }

    /** Waits for requests, which wait for replies from now on; {@code null} at the end. */
    private synchronized List<List<String>> packet() throws InterruptedException {
        long beatNs = System.nanoTime() + BEAT_NS;
        for (long leftNs = BEAT_NS; queue.isEmpty() && leftNs > 0 && !ended; ) {
            wait(leftNs / 1_000_000 + 1);
            leftNs = beatNs - System.nanoTime();
        }
        if (ended) {
            return null;
        }
        List<List<String>> packet = new ArrayList<>();
        long now = System.nanoTime();
        for (Entry asked : queue) {
            packet.add(asked.words);
            waiting.add(new Sent(asked, now));
        }
        if (queue.isEmpty()) {
            packet.add(BEAT);
            waiting.add(new Sent(null, now));
        }
        queue.clear();
        return packet;
    }

    /** Closes the connection. */
    void close() {
        synchronized (this) {
            ended = true;
            notifyAll();
        }
        connection.close();
    }

    /** Tells waiting readers that the connection is lost. */
    void fail() {
        List<Entry> lost;
        synchronized (this) {
            lost = new ArrayList<>(queue);
            waiting.forEach(sent -> lost.add(sent.entry()));
            queue.clear();
            waiting.clear();
        }
        lost.forEach(entry -> {
            if (entry != null) {
                entry.reply.complete(Entry.LOST);
            }
        });
    }
}
