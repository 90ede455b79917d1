package claret.net;

import claret.error.ConnectionException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/**
 * What a new connection is set up with: user, password and a file with it ({@code null}: none),
 * database, name for {@code CLIENT LIST} ({@code null}: none), the longest time to connect, and how it is
 * encrypted ({@code null}: not at all).
 */
public record Setup(
        String user,
        String password,
        Path passwordFile,
        int database,
        String clientName,
        Duration connectTimeout,
        Tls tls) {

    /** The same for one connection: with the password of the file as it is now, and another limit. */
    public Setup now(Duration limit) {
        String read = passwordFile == null ? password : passwordOf(passwordFile);
        return new Setup(user, read, null, database, clientName, limit, tls);
    }

    private static String passwordOf(Path file) {
        try {
            return Files.readString(file).lines().findFirst().orElse("");
        } catch (IOException error) {
            throw new ConnectionException("the password cannot be read: " + error, error);
        }
    }

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
