package claret.testing;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;

/**
 * A server for the tests of a program, with a folder and a port of its own, which it keeps when it is
 * started again. Its program is that of {@code CLARET_BIN}, or else {@code claret} on {@code PATH}.
 */
public final class ClaretServer implements AutoCloseable {
    private static final String HOST = "127.0.0.1";

    /** Time in which a server must be ready, even after it was killed. */
    private static final Duration READY_MAX = Duration.ofSeconds(30);

    private static final long LOOK_NS = 5_000_000;

    /**
     * Ports below those from which systems take the local end of a connection: a client that dials a
     * killed server again and again could otherwise be connected to itself, and keep the port.
     */
    private static final int PORT_MIN = 10_000;

    private static final int PORT_MAX = 32_000;

    private final Path folder;
    private final Path log;
    private final int port;
    private final List<String> words = new ArrayList<>();
    private final Thread end = new Thread(this::kill);
    private Process process;

    private ClaretServer(String[] arguments) throws IOException {
        folder = Files.createTempDirectory("claret-");
        log = folder.resolve("log.txt");
        port = freePort();
        words.addAll(List.of(binary(), "serve", "--port", Integer.toString(port)));
        words.addAll(List.of("--dir", folder.resolve("data").toString()));
        Collections.addAll(words, arguments);
    }

    /**
     * Starts a server without data.
     *
     * @param arguments are added to those of {@code claret serve}
     * @throws UncheckedIOException if there is no server to start, or it does not start
     */
    public static ClaretServer start(String... arguments) {
        try {
            ClaretServer server = new ClaretServer(arguments);
            // Tests that end without `close` leave no process behind.
            Runtime.getRuntime().addShutdownHook(server.end);
            try {
                server.restart();
            } catch (RuntimeException e) {
                server.close();
                throw e;
            }
            return server;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** The address, as {@code host:port}. */
    public String address() {
        return HOST + ":" + port;
    }

    /** Everything that the server has written, since it was first started. */
    public String log() {
        try {
            return Files.exists(log) ? Files.readString(log, StandardCharsets.UTF_8) : "";
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Kills the server, if it runs, and starts it on the same files and the same port. */
    public void restart() {
        kill();
        int before = log().length();
        try {
            ProcessBuilder.Redirect output = ProcessBuilder.Redirect.appendTo(log.toFile());
            process = new ProcessBuilder(words).redirectErrorStream(true).redirectOutput(output).start();
        } catch (IOException e) {
            throw new UncheckedIOException(
                    "there is no server to start: put claret on PATH, or set CLARET_BIN to its path", e);
        }
        long until = System.nanoTime() + READY_MAX.toNanos();
        while (!log().substring(before).contains("is ready")) {
            if (!process.isAlive() || System.nanoTime() > until) {
                kill();
                String text = "the server did not start: " + log().substring(before);
                throw new UncheckedIOException(new IOException(text));
            }
            LockSupport.parkNanos(LOOK_NS);
        }
    }

    /** Ends the server without warning, as {@code kill -9} does, if it runs. */
    public void kill() {
        if (process != null) {
            process.destroyForcibly().onExit().join();
        }
    }

    /** Kills the server, and removes its files. */
    @Override
    public void close() {
        kill();
        Runtime.getRuntime().removeShutdownHook(end);
        try (Stream<Path> files = Files.walk(folder)) {
            files.sorted(Comparator.reverseOrder()).forEach(file -> file.toFile().delete());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static String binary() {
        String named = System.getenv("CLARET_BIN");
        return named == null || named.isEmpty() ? "claret" : named;
    }

    private static int freePort() {
        while (true) {
            int port = ThreadLocalRandom.current().nextInt(PORT_MIN, PORT_MAX);
            try (ServerSocket probe = new ServerSocket(port, 1, InetAddress.getByName(HOST))) {
                return probe.getLocalPort();
            } catch (IOException taken) {
                continue;
            }
        }
    }
}
