package claret.wire;

import claret.error.BusyException;
import claret.error.ClaretException;
import claret.error.ConflictException;
import claret.error.RejectedException;
import claret.error.RepeatedException;
import claret.error.UndoneException;
import claret.error.UnknownOutcomeException;
import claret.lock.DeadlockException;
import claret.lock.LockLostException;
import claret.net.ErrorReply;
import java.util.List;

/** Exceptions of error replies. */
public final class Translate {
    private Translate() {}

    /** The exception of an error reply. */
    public static ClaretException error(ErrorReply reply) {
        return switch (reply.code()) {
            case "TXNABORT", "VOIDED" -> new ConflictException(reply);
            case "BUSY", "CLUSTERDOWN" -> new BusyException(reply);
            case "DEADLOCK" -> new DeadlockException(reply);
            case "FENCED" -> new LockLostException(reply);
            case "REPEATED" -> new RepeatedException(reply);
            case "EXECABORT" -> new UndoneException(reply);
            case "INDEFINITE" -> new UnknownOutcomeException(reply);
            default -> new RejectedException(reply);
        };
    }

    /** The reply, unless it is an error, which is thrown. */
    public static Object checked(Object reply) {
        if (reply instanceof ErrorReply error) {
            throw error(error);
        }
        return reply;
    }

    /** The last reply; throws the first error among them. */
    public static Object lastOf(List<Object> replies) {
        replies.forEach(Translate::checked);
        return replies.get(replies.size() - 1);
    }
}
