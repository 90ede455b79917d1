package claret.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import claret.Claret;
import claret.Options;
import claret.cache.Cache;
import claret.cache.CacheOptions;
import claret.cache.CacheStats;
import claret.error.CancelledException;
import claret.error.OrderException;
import claret.error.RejectedException;
import claret.net.Driver;
import claret.net.JedisDriver;
import claret.net.LettuceDriver;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;

/** Caches on a real server, over each library. */
@EnabledIfEnvironmentVariable(named = "CLARET_BIN", matches = ".*")
final class CacheTest {
    @Nested
    final class OverJedis extends Caches {
        OverJedis() {
            super(JedisDriver::new);
        }
    }

    @Nested
    final class OverLettuce extends Caches {
        OverLettuce() {
            super(LettuceDriver::new);
        }
    }

    abstract static class Caches extends OnServer {
        private final Supplier<Driver> drivers;
        private final FaultyDriver faulty;

        Caches(Supplier<Driver> drivers) {
            this(drivers, new FaultyDriver(drivers.get()));
        }

        private Caches(Supplier<Driver> drivers, FaultyDriver faulty) {
            super(faulty);
            this.drivers = drivers;
            this.faulty = faulty;
        }

        /** Waits two seconds at most until a read shows a value. */
        private static void assertSeen(String expected, Cache cache, String key) {
            long endNs = System.nanoTime() + 2_000_000_000L;
            String found = cache.get(key);
            while (!expected.equals(found) && System.nanoTime() < endNs) {
                found = cache.get(key);
            }
            assertEquals(expected, found);
        }

        @Test
        void aSilentServerIsNotAnsweredFor() throws Exception {
            db.set("x", "1");
            Options.Builder options = Options.builder().driver(drivers.get());
            try (Gate gate = new Gate(server.address());
                    Claret behind = Claret.connect(options.address(gate.address()).build());
                    Cache cache = behind.cache()) {
                assertEquals("1", cache.get("x"));
                assertEquals("1", cache.get("x"));
                assertEquals(new CacheStats(1, 1, 0), cache.stats());
                gate.shut();
                Waiting reader;
                try {
                    db.set("x", "2");
                    Thread.sleep(2_100);
                    reader = new Waiting(() -> assertEquals("2", cache.get("x")));
                    reader.thread.join(200);
                    assertTrue(reader.thread.isAlive());
                } finally {
                    gate.open();
                }
                assertNull(reader.outcome.get(10, TimeUnit.SECONDS));
            }
        }

        @Test
        void repliesCannotBeChangedByTheirReaders() {
            db.hset("h", "f", "1");
            db.ask("RPUSH", "l", "a", "b");
            Cache cache = db.cache();
            for (int i = 0; i < 2; i++) {
                cache.hgetAll("h").put("f", "2");
                Map<?, ?> fields = assertInstanceOf(Map.class, cache.read("hgetall", "h"));
                assertEquals(Map.of("f", "1"), fields);
                assertThrows(UnsupportedOperationException.class, fields::clear);
                List<?> row = assertInstanceOf(List.class, cache.read("LRANGE", "l", "0", "-1"));
                assertEquals(List.of("a", "b"), row);
                assertThrows(UnsupportedOperationException.class, row::clear);
            }
            assertEquals(new CacheStats(4, 2, 0), cache.stats());
        }

        @Test
        void onlyReadsOfOneKeyAreAnswered() {
            Cache cache = db.cache();
            for (String words : List.of("MGET a b", "SINTER a b", "LCS a b", "SET a 1", "INCR a")) {
                String[] all = words.split(" ");
                String[] others = List.of(all).subList(2, all.length).toArray(new String[0]);
                assertThrows(OrderException.class, () -> cache.read(all[0], all[1], others));
            }
            assertThrows(OrderException.class, () -> cache.read("SELECT", "1"));
            assertThrows(OrderException.class, () -> cache.read("NOTHING", "a"));
            assertEquals(cache.read("MGET", "a"), cache.read("MGET", "a"));
            assertEquals(new CacheStats(1, 1, 0), cache.stats());
            assertFalse(db.exists("a"));
        }

        @Test
        void aTableThatMayNotBeReadIsTheServersError() {
            db.ask("ACL", "SETUSER", "shop", "on", ">apple", "~*", "+@all", "-command");
            Options.Builder options = Options.builder().driver(drivers.get()).credentials("shop", "apple");
            try (Claret shop = Claret.connect(options.address(server.address()).build())) {
                assertThrows(RejectedException.class, () -> shop.cache().get("a"));
            }
        }

        @Test
        void aReadWhoseConnectionBreaksIsSentAgain() {
            db.set("x", "1");
            Cache cache = db.cache();
            assertEquals("1", cache.get("x"));
            faulty.fail("STRLEN X", FaultyDriver.Fault.LOST);
            long beganNs = System.nanoTime();
            assertEquals(1L, cache.read("STRLEN", "x"));
            assertTrue(System.nanoTime() - beganNs < 5_000_000_000L);
            assertEquals("1", cache.get("x"));
            assertEquals("1", cache.get("x"));
            assertEquals(new CacheStats(1, 3, 1), cache.stats());
        }

        @Test
        void theServerIsReadWhileItRefusesToTrack() throws InterruptedException {
            faulty.fail("CLIENT TRACKING", FaultyDriver.Fault.REFUSED);
            db.set("x", "1");
            Cache cache = db.cache();
            assertEquals("1", cache.get("x"));
            assertEquals(new CacheStats(0, 1, 0), cache.stats());
            Thread.sleep(60);
            assertEquals("1", cache.get("x"));
            assertEquals("1", cache.get("x"));
            assertEquals(new CacheStats(1, 2, 0), cache.stats());
        }

        @Test
        void aThreadThatIsInterruptedHoldsUpNoOther() throws Exception {
            db.set("x", "1");
            Cache cache = db.cache();
            assertEquals("1", cache.get("x"));
            Waiting reader =
                    new Waiting(
                            () -> {
                                Thread.currentThread().interrupt();
                                cache.read("STRLEN", "x");
                            });
            assertInstanceOf(CancelledException.class, reader.outcome.get(10, TimeUnit.SECONDS));
            assertEquals("1", cache.get("x"));
            assertEquals(0, cache.stats().dropped());
        }

        @Test
        void manyThreadsShareACache() throws Exception {
            Cache cache = db.cache(CacheOptions.defaults().maxEntries(50));
            List<CompletableFuture<Void>> readers = new ArrayList<>();
            for (int reader = 0; reader < 8; reader++) {
                readers.add(
                        CompletableFuture.runAsync(
                                () -> IntStream.range(0, 500).forEach(i -> cache.get("k" + i % 100))));
            }
            IntStream.range(0, 200).forEach(i -> db.set("k" + i % 100, Integer.toString(i)));
            for (CompletableFuture<Void> reader : readers) {
                reader.get(30, TimeUnit.SECONDS);
            }
            CacheStats stats = cache.stats();
            assertEquals(4000, stats.hits() + stats.misses());
            IntStream.range(100, 200).forEach(i -> assertSeen(Integer.toString(i), cache, "k" + i % 100));
            db.ask("FLUSHALL");
            db.set("k1", "new");
            assertSeen("new", cache, "k1");
        }
    }
}
