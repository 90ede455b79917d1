package inventory;

import claret.Claret;
import claret.Options;
import java.io.File;
import java.io.IOException;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.stream.Stream;

/** A real server on a free port, which can be killed and started again. */
final class Server implements AutoCloseable {
    private final Path folder;
    private final int port;
    private Process process;

    Server() throws IOException, InterruptedException {
        folder = Files.createTempDirectory("inventory-");
        try (ServerSocket free = new ServerSocket(0)) {
            port = free.getLocalPort();
        }
        start();
    }

    void start() throws IOException, InterruptedException {
        String data = folder.resolve("data").toString();
        String[] words = {
            System.getenv("CLARET_BIN"), "serve", "--port", Integer.toString(port), "--dir", data
        };
        File log = folder.resolve("log.txt").toFile();
        process = new ProcessBuilder(words).redirectErrorStream(true).redirectOutput(log).start();
        for (int tries = 0; tries < 200 && process.isAlive(); tries++) {
            if (Files.readString(log.toPath()).contains("is ready")) {
                return;
            }
            Thread.sleep(100);
        }
        throw new IOException("the server does not start: " + Files.readString(log.toPath()));
    }

    /** kill -9. */
    void kill() throws InterruptedException {
        process.destroyForcibly().waitFor();
    }

    Claret connect() {
        return Claret.connect(Options.builder().address("127.0.0.1:" + port).build());
    }

    @Override
    public void close() throws IOException, InterruptedException {
        kill();
        try (Stream<Path> files = Files.walk(folder)) {
            files.sorted(Comparator.reverseOrder()).forEach(file -> file.toFile().delete());
        }
    }
}
