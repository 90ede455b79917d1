import io.lettuce.core.LettuceFutures;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScanArgs;
import io.lettuce.core.ScanIterator;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.api.StatefulRedisClusterConnection;
import io.lettuce.core.cluster.api.async.RedisAdvancedClusterAsyncCommands;
import io.lettuce.core.cluster.api.sync.RedisAdvancedClusterCommands;
import io.lettuce.core.cluster.models.partitions.RedisClusterNode;
import io.lettuce.core.cluster.pubsub.RedisClusterPubSubAdapter;
import io.lettuce.core.cluster.pubsub.StatefulRedisClusterPubSubConnection;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.redisson.Redisson;
import org.redisson.api.RBucket;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import redis.clients.jedis.ClusterPipeline;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisCluster;
import redis.clients.jedis.Response;

/** The clients of Lettuce, Jedis and Redisson for clusters: they know which machine leads which slots. */
public final class ClusterStory {
    private static final int KEYS = 300;

    private static int port;

    public static void main(String[] words) throws Exception {
        port = Story.begin(words);
        lettuce();
        jedis();
        redisson();
    }

    /** A lock that threads of one client share, and what they count under it. */
    private static void redisson() throws Exception {
        Config config = new Config();
        config.useClusterServers().addNodeAddress("redis://127.0.0.1:" + port);
        RedissonClient client = Redisson.create(config);
        client.getBucket("count").set(0);
        Thread[] threads = new Thread[4];
        for (int n = 0; n < threads.length; n++) {
            threads[n] = new Thread(() -> {
                for (int turn = 0; turn < 10; turn++) {
                    RLock lock = client.getLock("lock");
                    lock.lock();
                    RBucket<Integer> count = client.getBucket("count");
                    count.set(count.get() + 1);
                    lock.unlock();
                }
            });
            threads[n].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        Story.say("locked", client.<Integer>getBucket("count").get(), client.getLock("lock").isLocked());
        client.getMap("map").putAll(Map.of("a", 1, "b", 2));
        Story.say("map", new TreeMap<>(client.getMap("map").readAllMap()));
        Story.say("limited", client.getAtomicLong("n").addAndGet(5), client.getQueue("q").offer("x"));
        topics(client, Redisson.create(config));
        client.shutdown();
    }

    /** Messages from one client to another, whatever machines they are connected to. */
    private static void topics(RedissonClient ours, RedissonClient theirs) throws Exception {
        List<String> heard = Collections.synchronizedList(new ArrayList<>());
        for (int n = 0; n < 6; n++) {
            theirs.getTopic("news:" + n).addListener(String.class,
                    (channel, message) -> heard.add(channel + "=" + message));
            theirs.getShardedTopic("sharded:" + n).addListener(String.class,
                    (channel, message) -> heard.add(channel + "=" + message));
        }
        theirs.getPatternTopic("wea*").addListener(String.class,
                (pattern, channel, message) -> heard.add(pattern + "/" + channel + "=" + message));
        for (int n = 0; n < 6; n++) {
            ours.getTopic("news:" + n).publish("one");
            ours.getShardedTopic("sharded:" + n).publish("two");
        }
        ours.getTopic("weather").publish("three");
        Story.until("thirteen messages", () -> heard.size() == 13);
        Story.say("heard", new TreeSet<>(heard));
        RLock lock = ours.getLock("handed");
        lock.lock();
        Thread waiter = new Thread(() -> theirs.getLock("handed").lock());
        waiter.start();
        Thread.sleep(300);
        long began = System.nanoTime();
        lock.unlock();
        waiter.join();
        // Without the message it would wait for the end of the lease.
        Story.say("handed over", (System.nanoTime() - began) / 1_000_000 < 3_000);
        theirs.shutdown();
    }

    private static void lettuce() throws Exception {
        RedisClusterClient client = RedisClusterClient.create(RedisURI.create("127.0.0.1", port));
        StatefulRedisClusterConnection<String, String> connection = client.connect();
        RedisAdvancedClusterCommands<String, String> redis = connection.sync();
        pipeline(connection.async());
        String[] some = IntStream.range(0, 20).mapToObj(n -> "l:" + n).toArray(String[]::new);
        Story.say("several", redis.mget(some).size(), redis.exists(some), redis.del(some));
        redis.mset(Map.of("l:1", "a", "l:2", "b", "l:3", "c"));
        Story.say("set", redis.mget("l:1", "l:2", "l:3"));
        TreeSet<String> names = new TreeSet<>();
        ScanIterator.scan(redis, ScanArgs.Builder.matches("l:*").limit(20)).forEachRemaining(names::add);
        Story.say("scanned", names.size(), redis.dbsize() >= names.size());
        String text = "redis.call('incrby', KEYS[1], ARGV[1]) return redis.call('incr', KEYS[2])";
        String[] keys = {"{tag}:a", "{tag}:b"};
        String digest = redis.scriptLoad(text);
        Object result = redis.evalsha(digest, ScriptOutputType.INTEGER, keys, "5");
        Story.say("script", result, redis.mget(keys));
        messages(client, redis);
        connection.close();
        client.shutdown(Duration.ZERO, Duration.ofSeconds(5));
    }

    private static void messages(
            RedisClusterClient client, RedisAdvancedClusterCommands<String, String> redis) throws Exception {
        List<String> heard = Collections.synchronizedList(new ArrayList<>());
        StatefulRedisClusterPubSubConnection<String, String> listener = client.connectPubSub();
        listener.addListener(new RedisClusterPubSubAdapter<>() {
            @Override
            public void message(RedisClusterNode node, String channel, String message) {
                heard.add(channel + "=" + message);
            }

            @Override
            public void smessage(RedisClusterNode node, String channel, String message) {
                heard.add("sharded " + channel + "=" + message);
            }
        });
        listener.sync().subscribe("lettuce");
        for (int n = 0; n < 6; n++) {
            listener.sync().ssubscribe("l:" + n);
        }
        redis.publish("lettuce", "one");
        for (int n = 0; n < 6; n++) {
            redis.spublish("l:" + n, "two");
        }
        Story.until("seven messages", () -> heard.size() == 7);
        Story.say("lettuce heard", new TreeSet<>(heard));
        listener.close();
    }

    private static void pipeline(RedisAdvancedClusterAsyncCommands<String, String> redis) {
        List<RedisFuture<?>> futures = new ArrayList<>();
        for (int n = 0; n < KEYS; n++) {
            futures.add(redis.set("l:" + n, "v" + n));
            futures.add(redis.append("l:" + n, "!"));
        }
        boolean ended = LettuceFutures.awaitAll(60, TimeUnit.SECONDS, futures.toArray(new RedisFuture<?>[0]));
        Story.say("pipeline", ended, redis.get("l:77").toCompletableFuture().join());
    }

    private static void jedis() throws Exception {
        JedisCluster redis = new JedisCluster(new HostAndPort("127.0.0.1", port));
        List<Response<Long>> replies = new ArrayList<>();
        try (ClusterPipeline pipeline = redis.pipelined()) {
            for (int n = 0; n < KEYS; n++) {
                replies.add(pipeline.incrBy("j:" + n, n));
            }
        }
        Story.say("jedis pipeline", replies.stream().mapToLong(Response::get).sum());
        Story.sideBySide(6, number -> {
            for (int n = 0; n < 200; n++) {
                redis.incr("sum:" + n % 10);
            }
            return null;
        });
        TreeMap<String, String> sums = new TreeMap<>();
        for (int n = 0; n < 10; n++) {
            sums.put("sum:" + n, redis.get("sum:" + n));
        }
        Story.say("jedis sums", sums);
        Story.say("jedis script", redis.eval("return {KEYS[1], ARGV[1]}", 1, "{t}:a", "x"));
        List<Object> popped = Story.sideBySide(2, number -> {
            if (number == 0) {
                return redis.blpop(20, "{q}:1", "{q}:2");
            }
            Thread.sleep(200);
            return redis.rpush("{q}:2", "a");
        });
        Story.say("jedis popped", popped);
        redis.close();
    }
}
