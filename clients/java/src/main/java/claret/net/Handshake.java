package claret.net;

import claret.error.ConnectionException;
import java.util.List;
import java.util.Map;

/** Greeting of a server over a new connection. */
final class Handshake {
    private Handshake() {}

    /** Sets a connection up, and returns it; closes it if the server refuses. */
    static Connection complete(Greeted connection, Setup setup) {
        List<List<String>> commands = setup.commands();
        boolean done = false;
        try {
            connection.send(commands);
            for (int i = 0; i < commands.size(); i++) {
                Object reply = connection.receive(setup.connectTimeout().toMillis());
                if (reply instanceof ErrorReply error) {
                    throw Greeted.refused(error);
                }
                if (reply instanceof Map<?, ?> about && about.get("id") instanceof Long id) {
                    connection.greeted(id);
                }
            }
            done = true;
            return connection;
        } catch (ConnectionException error) {
            if (setup.tls() == null || setup.tls().own() != null) {
                throw error;
            }
            // With TLS 1.3 the server says so after the handshake, if it is heard at all.
            String text = error.getMessage() + "; does it ask for a certificate of the client?";
            throw new ConnectionException(text, error);
        } finally {
            if (!done) {
                connection.close();
            }
        }
    }
}
