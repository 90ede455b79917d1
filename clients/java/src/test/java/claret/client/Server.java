package claret.client;

import claret.Claret;
import claret.Options;
import claret.net.Driver;
import java.io.File;
import java.io.IOException;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;

/** A real server on a free port, which can be killed and started again. */
final class Server implements AutoCloseable {
    private final Path folder;
    private final int port;
    private Process process;

    Server() throws IOException, InterruptedException {
        folder = Files.createTempDirectory("claret-java-");
        try (ServerSocket free = new ServerSocket(0)) {
            port = free.getLocalPort();
        }
        start();
    }

    void start() throws IOException, InterruptedException {
        List<String> words = new ArrayList<>(List.of(System.getenv("CLARET_BIN"), "serve"));
        words.addAll(List.of("--port", Integer.toString(port), "--dir", folder.resolve("data").toString()));
        File log = folder.resolve("log.txt").toFile();
        process = new ProcessBuilder(words).redirectErrorStream(true).redirectOutput(log).start();
        for (int tries = 0; tries < 100 && process.isAlive(); tries++) {
            if (Files.readString(log.toPath()).contains("is ready")) {
                return;
            }
            Thread.sleep(100);
        }
        throw new IOException("the server does not start: " + Files.readString(log.toPath()));
    }

    void kill() throws InterruptedException {
        process.destroyForcibly().waitFor();
    }

    Claret connect(Driver driver) {
        Options.Builder options = Options.builder().address("127.0.0.1:" + port).driver(driver);
        return Claret.connect(options.connectTimeout(Duration.ofSeconds(2)).build());
    }

    @Override
    public void close() throws IOException, InterruptedException {
        kill();
        try (Stream<Path> files = Files.walk(folder)) {
            files.sorted(Comparator.reverseOrder()).forEach(file -> file.toFile().delete());
        }
    }
}
