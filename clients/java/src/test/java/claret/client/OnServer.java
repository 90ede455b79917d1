package claret.client;

import claret.Claret;
import claret.Options;
import claret.net.Driver;
import claret.testing.ClaretServer;
import java.time.Duration;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;

/** Tests of which each has a client, over a driver, on a server of its own. */
abstract class OnServer {
    private final Driver driver;
    ClaretServer server;
    Claret db;

    OnServer(Driver driver) {
        this.driver = driver;
    }

    @BeforeEach
    void begin() {
        server = ClaretServer.start();
        Options.Builder options = Options.builder().address(server.address()).driver(driver);
        db = Claret.connect(options.connectTimeout(Duration.ofSeconds(2)).build());
    }

    @AfterEach
    void end() {
        if (server != null) {
            db.close();
            server.close();
        }
    }
}
