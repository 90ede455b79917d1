package claret.net;

import claret.error.CancelledException;
import claret.error.ClaretException;
import claret.error.ConnectionException;
import claret.error.RejectedException;
import java.security.GeneralSecurityException;
import java.util.Set;
import javax.net.ssl.SSLException;

/** A connection that is told its number once the server has said it. */
interface Greeted extends Connection {
    /** Codes of refusals that another try does not change. */
    Set<String> FOR_GOOD = Set.of("NOAUTH", "NOPERM", "WRONGPASS");

    void greeted(long number);

    /** The exception of a failure of the library, which may be how it reacts to an interruption. */
    static RuntimeException failed(Throwable cause) {
        if (Thread.currentThread().isInterrupted()) {
            return new CancelledException("the thread was interrupted", false);
        }
        return new ConnectionException("the connection failed: " + explained(cause), cause);
    }

    private static String explained(Throwable error) {
        String found = error.getMessage();
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            if (cause instanceof GeneralSecurityException) {
                return "the server's certificate is not trusted: " + cause.getMessage();
            }
            if (cause instanceof SSLException) {
                found = cause.getMessage();
            }
        }
        return found;
    }

    /** The exception of a server that refuses a connection: for good, if it does not know the user. */
    static ClaretException refused(ErrorReply reply) {
        if (FOR_GOOD.contains(reply.code())) {
            return new RejectedException(reply);
        }
        return new ConnectionException("the server refused the connection: " + reply.text(), null);
    }
}
