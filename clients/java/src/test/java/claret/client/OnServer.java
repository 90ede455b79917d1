package claret.client;

import claret.Claret;
import claret.net.Driver;
import java.io.IOException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;

/** Tests of which each has a client, over a driver, on a server of its own. */
abstract class OnServer {
    private final Driver driver;
    Server server;
    Claret db;

    OnServer(Driver driver) {
        this.driver = driver;
    }

    @BeforeEach
    void begin() throws IOException, InterruptedException {
        server = new Server();
        db = server.connect(driver);
    }

    @AfterEach
    void end() throws IOException, InterruptedException {
        if (server != null) {
            db.close();
            server.close();
        }
    }
}
