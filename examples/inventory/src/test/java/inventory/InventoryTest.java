package inventory;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import claret.Claret;
import claret.Options;
import claret.testing.ClaretServer;
import inventory.Inventory.Shown;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;

@EnabledIfEnvironmentVariable(named = "CLARET_BIN", matches = ".+")
class InventoryTest {
    private static final Duration LONG = Duration.ofMinutes(1);
    private static final Duration SHORT = Duration.ofMillis(300);

    private ClaretServer server;
    private Claret db;
    private Inventory inventory;

    @BeforeEach
    void start() throws IOException {
        server = ClaretServer.start();
        db = Claret.connect(Options.builder().address(server.address()).build());
        inventory = new Inventory(db);
    }

    @AfterEach
    void stop() {
        db.close();
        server.close();
    }

    private boolean reserve(String order, Duration time, Map<String, Long> articles) {
        return inventory.reserve(order, new TreeMap<>(articles), time);
    }

    private void expect(String article, long free, long sold) {
        assertEquals(List.of(new Shown(article, free, sold)), inventory.show(List.of(article)));
    }

    private void expectSoon(String article, long free, long sold) throws InterruptedException {
        List<Shown> wanted = List.of(new Shown(article, free, sold));
        for (int i = 0; i < 100 && !inventory.show(List.of(article)).equals(wanted); i++) {
            Thread.sleep(50);
        }
        expect(article, free, sold);
    }

    @Test
    void fiftyBuyersOfASmallStockNeverBuyTooMuch() throws Exception {
        inventory.add("apples", 20);
        inventory.add("pears", 30);
        ExecutorService threads = Executors.newFixedThreadPool(50);
        List<Future<Integer>> buyers = new ArrayList<>();
        for (int i = 0; i < 50; i++) {
            int buyer = i;
            buyers.add(threads.submit(() -> visit(buyer)));
        }
        int bought = 0;
        for (Future<Integer> buyer : buyers) {
            bought += buyer.get();
        }
        threads.shutdown();
        // What was reserved and neither bought nor released comes back.
        expectSoon("apples", 20 - bought, bought);
        expectSoon("pears", 30 - 2L * bought, 2L * bought);
        assertTrue(bought > 0 && bought <= 15, bought + " bought");
        // What is left can be bought, and no more.
        int last = 0;
        while (reserve("last-" + last, LONG, Map.of("apples", 1L, "pears", 2L))) {
            assertTrue(inventory.buy("last-" + last));
            last++;
        }
        expect("apples", 5, 15);
        expect("pears", 0, 30);
    }

    /** Reserves, and then buys, releases, or goes away. Returns the number of orders bought. */
    private int visit(int buyer) throws InterruptedException {
        String order = "visit-" + buyer;
        boolean leaves = buyer % 5 == 0;
        Duration time = leaves ? SHORT : LONG;
        if (!reserve(order, time, Map.of("apples", 1L, "pears", 2L)) || leaves) {
            return 0;
        }
        if (buyer % 5 == 1) {
            assertTrue(inventory.release(order));
            return 0;
        }
        return inventory.buy(order) ? 1 : 0;
    }

    @Test
    void anOrderReservesAllOfItsArticlesOrNone() {
        inventory.add("apples", 5);
        inventory.add("pears", 1);
        assertFalse(reserve("a", LONG, Map.of("apples", 1L, "pears", 2L)));
        expect("apples", 5, 0);
        inventory.add("pears", 1);
        assertTrue(reserve("a", LONG, Map.of("apples", 1L, "pears", 2L)));
        expect("apples", 4, 0);
        expect("pears", 0, 0);
    }

    @Test
    void anOrderReservesOnceAndIsBoughtOnce() {
        inventory.add("apples", 5);
        for (int i = 0; i < 2; i++) {
            assertTrue(reserve("a", LONG, Map.of("apples", 2L)));
            expect("apples", 3, 0);
        }
        for (int i = 0; i < 2; i++) {
            assertTrue(inventory.buy("a"));
            expect("apples", 3, 2);
        }
        assertFalse(inventory.release("a"));
        assertThrows(IllegalArgumentException.class, () -> inventory.buy("unknown"));
    }

    @Test
    void aReservationThatEndsComesBackAndCannotBeBought() throws Exception {
        inventory.add("apples", 5);
        inventory.add("pears", 5);
        assertTrue(reserve("a", SHORT, Map.of("apples", 2L, "pears", 3L)));
        expectSoon("apples", 5, 0);
        expectSoon("pears", 5, 0);
        assertFalse(inventory.buy("a"));
        expect("apples", 5, 0);
    }

    @Test
    void onePartThatIsGoneUndoesThePurchaseOfTheOthers() {
        inventory.add("apples", 5);
        inventory.add("pears", 5);
        assertTrue(reserve("a", LONG, Map.of("apples", 1L, "pears", 1L)));
        db.ask("TYPE.CALL", "stock:pears", "stock.release", "a", "1");
        assertFalse(inventory.buy("a"));
        expect("apples", 4, 0);
        expect("pears", 5, 0);
    }

    @Test
    void reservationsOutliveAKilledServer() throws Exception {
        inventory.add("apples", 5);
        assertTrue(reserve("kept", LONG, Map.of("apples", 1L)));
        assertTrue(reserve("left", Duration.ofSeconds(2), Map.of("apples", 2L)));
        server.restart();
        assertTrue(reserve("kept", LONG, Map.of("apples", 1L)));
        assertTrue(inventory.buy("kept"));
        expectSoon("apples", 4, 1);
    }
}
