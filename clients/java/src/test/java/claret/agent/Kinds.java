package claret.agent;

import claret.error.BusyException;
import claret.error.CancelledException;
import claret.error.ClaretException;
import claret.error.ClosedException;
import claret.error.ConflictException;
import claret.error.ConnectionException;
import claret.error.OrderException;
import claret.error.RejectedException;
import claret.error.RepeatedException;
import claret.error.UndoneException;
import claret.error.UnknownOutcomeException;
import claret.error.WriteRefusedException;
import claret.lock.DeadlockException;
import claret.lock.LockLostException;
import claret.lock.NotAcquiredException;
import com.google.gson.JsonObject;
import java.util.Map;

/** Names of the kinds of errors. */
final class Kinds {
    private static final Map<Class<?>, String> NAMES =
            Map.ofEntries(
                    Map.entry(ConflictException.class, "conflict"),
                    Map.entry(BusyException.class, "busy"),
                    Map.entry(UndoneException.class, "undone"),
                    Map.entry(WriteRefusedException.class, "write_refused"),
                    Map.entry(UnknownOutcomeException.class, "unknown"),
                    Map.entry(RepeatedException.class, "repeated"),
                    Map.entry(DeadlockException.class, "deadlock"),
                    Map.entry(LockLostException.class, "lock_lost"),
                    Map.entry(NotAcquiredException.class, "not_acquired"),
                    Map.entry(OrderException.class, "order"),
                    Map.entry(ClosedException.class, "closed"),
                    Map.entry(CancelledException.class, "cancelled"),
                    Map.entry(RejectedException.class, "rejected"),
                    Map.entry(ConnectionException.class, "connection"));

    private Kinds() {}

    static JsonObject of(Throwable error) {
        JsonObject about = new JsonObject();
        String other = error instanceof BodyFailure ? "body" : "internal";
        about.addProperty("kind", NAMES.getOrDefault(error.getClass(), other));
        ClaretException labelled = error instanceof ClaretException known ? known : null;
        about.addProperty("retryable", labelled != null && labelled.isRetryable());
        about.addProperty("may_have_happened", labelled != null && labelled.mayHaveHappened());
        about.addProperty("message", String.valueOf(error.getMessage()));
        return about;
    }

    /** Failure of a program's own function. */
    static final class BodyFailure extends Exception {
        private static final long serialVersionUID = 1L;

        BodyFailure(String message) {
            super(message);
        }
    }
}
