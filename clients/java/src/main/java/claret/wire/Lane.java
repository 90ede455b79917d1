package claret.wire;

import claret.error.ClaretException;
import claret.error.ConnectionException;
import claret.net.Connection;
import java.util.ArrayList;
import java.util.List;

/**
 * A connection on loan, taken when it is first needed.
 *
 * <p>A transaction that is run again stays on its connection, because the server keeps its age there.
 */
public final class Lane implements AutoCloseable {
    private final Wire wire;
    private Connection connection;
    private boolean unended;
    private boolean cautious;
    private volatile long id;
    private final long limitMs;

    /** Borrows a connection later. */
    public Lane(Wire wire) {
        this(wire, 0);
    }

    /** Opens a connection later, within some milliseconds; 0: an idle one will do. */
    Lane(Wire wire, long limitMs) {
        this.wire = wire;
        this.limitMs = limitMs;
    }

    /** Takes the connection now, so that a server that cannot be reached is told from a lost reply. */
    public void connect() {
        if (connection == null) {
            connection = limitMs == 0 ? wire.take() : wire.open(limitMs);
            id = connection.id();
        }
    }

    /** The number by which the server knows the connection, also when it is closed. */
    public long id() {
        return id;
    }

    /** Sends commands in one write, and returns their replies, errors as values. */
    public List<Object> exchange(List<List<String>> commands, boolean first, long waitMs) {
        if (first) {
            connect();
        } else if (connection == null) {
            throw new ConnectionException("the connection of the transaction was closed", null);
        }
        unended = false;
        boolean done = false;
        try {
            connection.send(commands);
            long endNs = System.nanoTime() + waitMs * 1_000_000;
            List<Object> replies = new ArrayList<>(commands.size());
            for (int i = 0; i < commands.size(); i++) {
                long leftMs = (endNs - System.nanoTime()) / 1_000_000;
                replies.add(connection.receive(Math.max(1, leftMs)));
            }
            done = true;
            return replies;
        } finally {
            // Outstanding replies may still arrive on it.
            if (!done) {
                connection.close();
                connection = null;
            }
        }
    }

    /** Whether the connection has accepted an opening of this kind, and none was refused here. */
    boolean hasAccepted(String kind) {
        connect();
        return !cautious && wire.hasAccepted(connection, kind);
    }

    void accept(String kind) {
        wire.accept(connection, kind);
    }

    boolean onlyReads(List<String> words) {
        return wire.onlyReads(words);
    }

    /** Lets each opening be sent alone. */
    public void beCautious() {
        cautious = true;
    }

    /** Closes the connection, whose opening was refused. */
    void discard() {
        cautious = true;
        connection.close();
        connection = null;
    }

    /** Whether there is a connection. */
    public boolean isConnected() {
        return connection != null;
    }

    /** Notes that the server may still treat the connection as in a transaction. */
    public void leaveUnended() {
        unended = true;
    }

    /** Returns the connection. */
    @Override
    public void close() {
        Connection returned = connection;
        connection = null;
        if (returned == null) {
            return;
        }
        if (unended && !hasEnded(returned)) {
            returned.close();
        } else {
            wire.giveBack(returned);
        }
    }

    private boolean hasEnded(Connection open) {
        try {
            open.send(List.of(List.of("TXN", "ABORT")));
            open.receive(wire.timeoutMs);
            return true;
        } catch (ClaretException error) {
            return false;
        }
    }
}
