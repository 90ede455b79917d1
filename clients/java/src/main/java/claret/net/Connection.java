package claret.net;

import java.util.List;
import java.util.function.Consumer;

/**
 * A dedicated connection to a server, over whatever library. One thread sends and one receives.
 *
 * <p>Replies are {@code null}, {@link String}, {@link Long}, {@link Double}, {@link Boolean}, {@link
 * List}, {@link java.util.Set}, {@link java.util.Map}, or {@link ErrorReply}, also inside of others.
 *
 * <p>A lost connection throws {@link claret.error.ConnectionException}, an interrupted thread {@link
 * claret.error.CancelledException}; both leave the connection closed.
 */
public interface Connection extends AutoCloseable {
    /** Sends commands in one write, without waiting for replies. */
    void send(List<List<String>> commands);

    /** Waits for the next reply, for some milliseconds at most. */
    Object receive(long waitMs);

    /**
     * Gives what the server sends by itself to a listener, before the replies behind it are received. The
     * listener must not wait. Without one, it is ignored.
     */
    void onPush(Consumer<List<?>> listener);

    /** The number by which the server knows the connection. */
    long id();

    /** Whether the connection is open, and the server has not closed it, as far as is known. */
    boolean isAlive();

    /** Closes the connection. */
    @Override
    void close();
}
