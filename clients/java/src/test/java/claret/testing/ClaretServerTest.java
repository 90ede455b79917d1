package claret.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import claret.Claret;
import claret.Options;
import java.io.UncheckedIOException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;

@EnabledIfEnvironmentVariable(named = "CLARET_BIN", matches = ".*")
final class ClaretServerTest {
    @Test
    void aServerKeepsItsAddressAndItsDataWhenItIsKilled() {
        try (ClaretServer server = ClaretServer.start("--shards", "1")) {
            String address = server.address();
            try (Claret db = Claret.connect(Options.builder().address(address).build())) {
                db.set("kept", "1");
                server.kill();
                server.restart();
                assertEquals(address, server.address());
                assertEquals("1", db.get("kept"));
            }
        }
    }

    @Test
    void aServerThatDoesNotStartSaysWhy() {
        UncheckedIOException error =
                assertThrows(UncheckedIOException.class, () -> ClaretServer.start("--shard-count", "1"));
        assertTrue(error.getMessage().contains("unexpected argument '--shard-count'"));
    }
}
