package claret.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import claret.testing.ClaretServer;
import io.lettuce.core.ClientOptions;
import io.lettuce.core.MaintNotificationsConfig;
import io.lettuce.core.TrackingArgs;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.support.caching.CacheAccessor;
import io.lettuce.core.support.caching.CacheFrontend;
import io.lettuce.core.support.caching.ClientSideCaching;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.csc.CacheConfig;

/** The caches of Jedis and Lettuce themselves. */
@EnabledIfEnvironmentVariable(named = "CLARET_BIN", matches = ".*")
final class StockCacheTest {
    private ClaretServer server;
    private String host;
    private int port;

    @BeforeEach
    void begin() {
        server = ClaretServer.start();
        host = server.address().split(":")[0];
        port = Integer.parseInt(server.address().split(":")[1]);
    }

    @AfterEach
    void end() {
        server.close();
    }

    private void write(String value) {
        try (Jedis other = new Jedis(host, port)) {
            assertEquals("OK", other.set("x", value));
        }
    }

    private static void assertSeen(String expected, Supplier<String> read) {
        long endNs = System.nanoTime() + 10_000_000_000L;
        String found = read.get();
        while (!expected.equals(found) && System.nanoTime() < endNs) {
            found = read.get();
        }
        assertEquals(expected, found);
    }

    @Test
    void theCacheOfJedisIsDroppedByACommandThatFindsItsConnectionClosed() {
        DefaultJedisClientConfig resp3 =
                DefaultJedisClientConfig.builder().protocol(RedisProtocol.RESP3).build();
        try (RedisClient jedis =
                RedisClient.builder()
                        .hostAndPort(host, port)
                        .clientConfig(resp3)
                        .cacheConfig(CacheConfig.builder().maxSize(10_000).build())
                        .build()) {
            write("1");
            assertEquals("1", jedis.get("x"));
            assertEquals("1", jedis.get("x"));
            assertEquals(1, jedis.getCache().getStats().getHitCount());
            write("2");
            assertSeen("2", () -> jedis.get("x"));
            server.restart();
            write("3");
            assertSeen("PONG", () -> readOrNull(jedis::ping));
            assertEquals("3", jedis.get("x"));
        }
    }

    @Test
    void theCacheOfLettuceOutlivesItsConnection() {
        ClientOptions options =
                ClientOptions.builder().maintNotificationsConfig(MaintNotificationsConfig.disabled()).build();
        io.lettuce.core.RedisClient lettuce =
                io.lettuce.core.RedisClient.create("redis://" + server.address());
        lettuce.setOptions(options);
        Map<String, String> kept = new ConcurrentHashMap<>();
        StatefulRedisConnection<String, String> connection = lettuce.connect();
        try (CacheFrontend<String, String> cache =
                ClientSideCaching.enable(
                        CacheAccessor.forMap(kept), connection, TrackingArgs.Builder.enabled())) {
            write("1");
            assertEquals("1", cache.get("x"));
            assertTrue(kept.containsKey("x"));
            write("2");
            assertSeen("2", () -> cache.get("x"));
            server.restart();
            write("3");
            assertSeen("PONG", () -> readOrNull(() -> connection.sync().ping()));
            // The library drops nothing when it connects again: not what is wanted, but a fact for the guide.
            assertEquals("2", cache.get("x"));
        } finally {
            lettuce.shutdown();
        }
    }

    private static String readOrNull(Supplier<String> read) {
        try {
            return read.get();
        } catch (RuntimeException lost) {
            return null;
        }
    }
}
