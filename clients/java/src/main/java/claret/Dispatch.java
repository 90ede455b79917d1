package claret;

import claret.error.CancelledException;
import claret.error.ClaretException;
import claret.error.ClosedException;
import claret.error.ConnectionException;
import claret.error.UnknownOutcomeException;
import claret.net.Connection;
import claret.net.ErrorReply;
import claret.wire.Interrupts;
import claret.wire.Translate;
import claret.wire.Wire;
import claret.wire.Words;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.function.Function;

/**
 * Commands that are sent without waiting for replies, and take effect in the order in which they are
 * sent, over all keys. For one thread.
 *
 * <p>If the connection breaks, the futures without a reply complete with {@link
 * UnknownOutcomeException}. Actions that depend on a future run in the thread that reads the replies:
 * they must not wait.
 */
public final class Dispatch implements AutoCloseable {
    // Most unanswered commands, so that the server never has to wait for room for replies.
    private static final int WINDOW = 256;

    private final Wire wire;
    private final Connection connection;
    private final BlockingQueue<CompletableFuture<Object>> open = new LinkedBlockingQueue<>();
    // Stands behind the last future in the queue.
    private final CompletableFuture<Object> end = new CompletableFuture<>();
    private final Semaphore room = new Semaphore(WINDOW);
    private final Thread reader;
    private volatile ClaretException broken;
    private boolean closed;

    Dispatch(Wire wire) {
        this.wire = wire;
        connection = wire.take();
        reader = new Thread(this::read, "claret-dispatch");
        reader.setDaemon(true);
        reader.start();
    }

    /** Sends a command; its reply comes later. */
    public CompletableFuture<Object> send(String... words) {
        return send(reply -> reply, words);
    }

    /** Sends a command; its reply comes later, and is converted then. */
    public <T> CompletableFuture<T> send(Function<Object, T> convert, String... words) {
        List<String> command = Words.inside(words);
        if (closed) {
            throw new ClosedException("the dispatch is closed");
        }
        CompletableFuture<Object> future = new CompletableFuture<>();
        waitForRoom();
        if (broken != null) {
            future.completeExceptionally(broken);
        } else {
            sendNow(command, future);
        }
        return future.thenApply(convert);
    }

    private void waitForRoom() {
        try {
            if (Thread.currentThread() != reader) {
                room.acquire();
            }
        } catch (InterruptedException interrupted) {
            throw Interrupts.cancelled();
        }
    }

    private void sendNow(List<String> command, CompletableFuture<Object> future) {
        // Before it is sent: the reader completes whatever is in the queue when the connection breaks.
        open.add(future);
        ClaretException before = broken;
        if (before != null) {
            future.completeExceptionally(before);
            return;
        }
        try {
            connection.send(List.of(command));
        } catch (ConnectionException error) {
            future.completeExceptionally(lost(error));
        }
    }

    private static ClaretException lost(ClaretException error) {
        return new UnknownOutcomeException("the reply was lost: " + error.getMessage(), error);
    }

    private void read() {
        CompletableFuture<Object> next = null;
        try {
            for (next = open.take(); next != end; next = open.take()) {
                Object reply = connection.receive(wire.timeoutMs);
                room.release();
                if (reply instanceof ErrorReply error) {
                    next.completeExceptionally(Translate.error(error));
                } else {
                    next.complete(reply);
                }
            }
            wire.giveBack(connection);
        } catch (ConnectionException | CancelledException | InterruptedException error) {
            connection.close();
            boolean known = error instanceof ClaretException;
            ClaretException told = lost(known ? (ClaretException) error : Interrupts.cancelled());
            broken = told;
            room.release(WINDOW * WINDOW);
            for (CompletableFuture<Object> left = next; left != null; left = open.poll()) {
                left.completeExceptionally(told);
            }
        }
    }

    /** Waits for all replies. Does not throw their errors: the futures have them. */
    @Override
    public void close() {
        if (closed) {
            return;
        }
        closed = true;
        open.add(end);
        try {
            reader.join();
        } catch (InterruptedException interrupted) {
            connection.close();
            throw Interrupts.cancelled();
        }
    }
}
