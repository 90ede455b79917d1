package claret.net;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/**
 * What a new connection is set up with: user and password ({@code null}: none), database, name for
 * {@code CLIENT LIST} ({@code null}: none), and the longest time to connect.
 */
public record Setup(
        String user, String password, int database, String clientName, Duration connectTimeout) {

    /** Commands that a new connection sends first. */
    public List<List<String>> commands() {
        List<List<String>> commands = new ArrayList<>();
        List<String> hello = new ArrayList<>(List.of("HELLO", "3"));
        if (password != null) {
            hello.addAll(List.of("AUTH", user == null ? "default" : user, password));
        }
        commands.add(hello);
        if (database != 0) {
            commands.add(List.of("SELECT", Integer.toString(database)));
        }
        if (clientName != null) {
            commands.add(List.of("CLIENT", "SETNAME", clientName));
        }
        return commands;
    }
}
