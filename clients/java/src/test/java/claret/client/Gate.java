package claret.client;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.concurrent.locks.ReentrantLock;

/** Passes on what clients and a server say, unless it is shut: then it holds back what the server says. */
final class Gate implements AutoCloseable {
    private final ServerSocket listener;
    private final int port;
    private final ReentrantLock shut = new ReentrantLock();
    private final ReentrantLock open = new ReentrantLock();

    Gate(String server) {
        port = Integer.parseInt(server.substring(server.indexOf(':') + 1));
        try {
            listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        begin(this::accept);
    }

    String address() {
        return "127.0.0.1:" + listener.getLocalPort();
    }

    /** Holds back what the server says, until the thread that called this opens it again. */
    void shut() {
        shut.lock();
    }

    void open() {
        shut.unlock();
    }

    private static void begin(Runnable task) {
        Thread thread = new Thread(task, "gate");
        thread.setDaemon(true);
        thread.start();
    }

    private void accept() {
        try {
            while (true) {
                Socket client = listener.accept();
                Socket server = new Socket(InetAddress.getLoopbackAddress(), port);
                begin(() -> pass(client, server, open));
                begin(() -> pass(server, client, shut));
            }
        } catch (IOException closed) {
            // The test has ended.
        }
    }

    private static void pass(Socket from, Socket to, ReentrantLock gate) {
        byte[] part = new byte[4096];
        try (from; to) {
            InputStream in = from.getInputStream();
            OutputStream out = to.getOutputStream();
            for (int count = in.read(part); count >= 0; count = in.read(part)) {
                gate.lock();
                try {
                    out.write(part, 0, count);
                } finally {
                    gate.unlock();
                }
            }
        } catch (IOException closed) {
            // So is the other side now.
        }
    }

    @Override
    public void close() throws IOException {
        listener.close();
    }
}
