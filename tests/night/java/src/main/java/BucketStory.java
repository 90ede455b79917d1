import io.github.bucket4j.Bandwidth;
import io.github.bucket4j.BucketConfiguration;
import io.github.bucket4j.ConsumptionProbe;
import io.github.bucket4j.TokensInheritanceStrategy;
import io.github.bucket4j.distributed.AsyncBucketProxy;
import io.github.bucket4j.distributed.BucketProxy;
import io.github.bucket4j.distributed.ExpirationAfterWriteStrategy;
import io.github.bucket4j.distributed.proxy.ProxyManager;
import io.github.bucket4j.redis.jedis.Bucket4jJedis;
import io.github.bucket4j.redis.lettuce.Bucket4jLettuce;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import redis.clients.jedis.JedisPool;

/** Bucket4j over Lettuce and over Jedis: threads of two managers take tokens by compare-and-swap. */
public final class BucketStory {
    private static final int TOKENS = 200;
    private static final Duration LONG = Duration.ofHours(10);

    public static void main(String[] words) throws Exception {
        int port = Story.begin(words);
        ExpirationAfterWriteStrategy expiry =
                ExpirationAfterWriteStrategy.basedOnTimeForRefillingBucketUpToMax(Duration.ofSeconds(10));
        List<RedisClient> clients = new ArrayList<>();
        List<ProxyManager<byte[]>> managers = new ArrayList<>();
        for (int n = 0; n < 2; n++) {
            RedisClient client = RedisClient.create(RedisURI.create("127.0.0.1", port));
            clients.add(client);
            managers.add(Bucket4jLettuce.casBasedBuilder(client).expirationAfterWrite(expiry).build());
        }
        story("lettuce", managers, clients.get(0));
        try (JedisPool pool = new JedisPool("127.0.0.1", port)) {
            managers.set(0, Bucket4jJedis.casBasedBuilder(pool).expirationAfterWrite(expiry).build());
            managers.set(1, Bucket4jJedis.casBasedBuilder(pool).expirationAfterWrite(expiry).build());
            story("jedis", managers, clients.get(0));
        }
        for (RedisClient client : clients) {
            client.shutdown(Duration.ZERO, Duration.ofSeconds(5));
        }
    }

    private static void story(String name, List<ProxyManager<byte[]>> managers, RedisClient client)
            throws Exception {
        exactly(name, managers);
        if (managers.get(0).isAsyncModeSupported()) {
            asynchronously(name, managers.get(0));
        }
        refills(name, managers);
        changes(name, managers);
        expires(name, managers, client);
    }

    private static BucketConfiguration slow(long capacity) {
        Bandwidth limit = Bandwidth.builder().capacity(capacity).refillIntervally(capacity, LONG).build();
        return BucketConfiguration.builder().addLimit(limit).build();
    }

    private static BucketProxy bucket(
            List<ProxyManager<byte[]>> managers, int number, String key, long capacity) {
        ProxyManager<byte[]> manager = managers.get(number % managers.size());
        return manager.getProxy(key.getBytes(StandardCharsets.UTF_8), () -> slow(capacity));
    }

    /** Eight threads try three times as often as there are tokens. */
    private static void exactly(String name, List<ProxyManager<byte[]>> managers) throws Exception {
        List<Integer> taken = Story.sideBySide(8, number -> {
            BucketProxy bucket = bucket(managers, number, name + ":shared", TOKENS);
            int mine = 0;
            for (int n = 0; n < TOKENS * 3 / 8; n++) {
                mine += bucket.tryConsume(1) ? 1 : 0;
            }
            return mine;
        });
        BucketProxy bucket = bucket(managers, 0, name + ":shared", TOKENS);
        Story.say(name + " taken", taken.stream().mapToInt(Integer::intValue).sum());
        ConsumptionProbe probe = bucket.tryConsumeAndReturnRemaining(1);
        Story.say(name + " refused", probe.isConsumed(), probe.getRemainingTokens());
        bucket.addTokens(5);
        Story.say(name + " added", bucket.getAvailableTokens(), bucket.tryConsumeAsMuchAsPossible());
    }

    private static void asynchronously(String name, ProxyManager<byte[]> manager) {
        byte[] key = (name + ":async").getBytes(StandardCharsets.UTF_8);
        AsyncBucketProxy bucket =
                manager.asAsync().getProxy(key, () -> CompletableFuture.completedFuture(slow(20)));
        List<CompletableFuture<Boolean>> tries = new ArrayList<>();
        for (int n = 0; n < 60; n++) {
            tries.add(bucket.tryConsume(1));
        }
        Story.say(name + " async", tries.stream().filter(CompletableFuture::join).count());
    }

    /** A token each 100 ms: threads that wait for theirs take as long as eight tokens need. */
    private static void refills(String name, List<ProxyManager<byte[]>> managers) throws Exception {
        Bandwidth limit = Bandwidth.builder().capacity(2).refillGreedy(10, Duration.ofSeconds(1)).build();
        BucketConfiguration quick = BucketConfiguration.builder().addLimit(limit).build();
        long begun = System.nanoTime();
        List<Boolean> taken = Story.sideBySide(5, number -> {
            byte[] key = (name + ":quick").getBytes(StandardCharsets.UTF_8);
            BucketProxy bucket = managers.get(number % 2).getProxy(key, () -> quick);
            bucket.asBlocking().consume(1);
            return bucket.asBlocking().tryConsume(1, Duration.ofSeconds(20));
        });
        Story.say(name + " waited", taken, (System.nanoTime() - begun >= 700_000_000));
    }

    private static void changes(String name, List<ProxyManager<byte[]>> managers) {
        BucketProxy bucket = bucket(managers, 0, name + ":changed", 10);
        Story.say(name + " before", bucket.tryConsume(4), bucket.getAvailableTokens());
        BucketProxy same = bucket(managers, 1, name + ":changed", 10);
        same.replaceConfiguration(slow(20), TokensInheritanceStrategy.AS_IS);
        Story.say(name + " after", bucket.getAvailableTokens(), bucket.tryConsume(7));
        managers.get(1).removeProxy((name + ":changed").getBytes(StandardCharsets.UTF_8));
        Story.say(name + " anew", bucket(managers, 0, name + ":changed", 10).getAvailableTokens());
    }

    /** The record of a bucket expires when it would be full again, and ten seconds. */
    private static void expires(String name, List<ProxyManager<byte[]>> managers, RedisClient client) {
        bucket(managers, 0, name + ":kept", 10).tryConsume(4);
        try (var connection = client.connect()) {
            long left = connection.sync().pttl(name + ":kept");
            Story.say(name + " expires", left > LONG.toMillis() - 60_000 && left <= LONG.toMillis() + 10_000);
        }
    }
}
