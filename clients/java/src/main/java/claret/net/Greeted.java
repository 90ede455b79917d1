package claret.net;

import claret.error.CancelledException;
import claret.error.ConnectionException;

/** A connection that is told its number once the server has said it. */
interface Greeted extends Connection {
    void greeted(long number);

    /** The exception of a failure of the library, which may be how it reacts to an interruption. */
    static RuntimeException failed(Throwable cause) {
        if (Thread.currentThread().isInterrupted()) {
            return new CancelledException("the thread was interrupted", false);
        }
        return new ConnectionException("the connection failed: " + cause.getMessage(), cause);
    }
}
