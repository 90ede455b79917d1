import io.lettuce.core.Consumer;
import io.lettuce.core.KeyValue;
import io.lettuce.core.LettuceFutures;
import io.lettuce.core.Range;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScanArgs;
import io.lettuce.core.ScanIterator;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.SetArgs;
import io.lettuce.core.StreamMessage;
import io.lettuce.core.TransactionResult;
import io.lettuce.core.XGroupCreateArgs;
import io.lettuce.core.XReadArgs.StreamOffset;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.async.RedisAsyncCommands;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import io.lettuce.core.pubsub.StatefulRedisPubSubConnection;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;

/** Lettuce: pipelines, transactions, scripts, messages, streams, waiting, and many threads. */
public final class LettuceStory {
    private static RedisClient client;
    private static StatefulRedisConnection<String, String> connection;
    private static RedisCommands<String, String> redis;

    public static void main(String[] words) throws Exception {
        client = RedisClient.create(RedisURI.create("127.0.0.1", Story.begin(words)));
        connection = client.connect();
        redis = connection.sync();
        values();
        pipelines();
        transactions();
        optimists();
        scripts();
        messages();
        streams();
        waiting();
        reactive();
        connection.close();
        client.shutdown(Duration.ZERO, Duration.ofSeconds(5));
    }

    private static void values() throws Exception {
        Story.say("set", redis.set("v", "1", SetArgs.Builder.nx().px(60_000)));
        Story.say("set again", redis.set("v", "2", SetArgs.Builder.nx()));
        Story.say("old", redis.setGet("v", "3"));
        redis.hset("h", Map.of("a", "1", "b", "2"));
        Story.say("hash", new TreeMap<>(redis.hgetall("h")));
        redis.zadd("z", 1.5, "one");
        redis.zadd("z", 2.5, "two");
        Story.say("scores", redis.zrangeWithScores("z", 0, -1));
        List<String> names = new ArrayList<>();
        for (int n = 0; n < 500; n++) {
            redis.set("scan:" + n, "");
        }
        ScanArgs pages = ScanArgs.Builder.matches("scan:*").limit(50);
        ScanIterator<String> scanned = ScanIterator.scan(redis, pages);
        scanned.forEachRemaining(names::add);
        Story.say("scanned", new TreeSet<>(names).size());
        Story.say("wrong type", error(() -> redis.lpush("h", "x")));
    }

    private static void pipelines() {
        RedisAsyncCommands<String, String> async = connection.async();
        connection.setAutoFlushCommands(false);
        List<RedisFuture<Long>> futures = new ArrayList<>();
        for (int n = 0; n < 10_000; n++) {
            futures.add(async.incr("counter:" + n % 7));
        }
        connection.flushCommands();
        connection.setAutoFlushCommands(true);
        boolean ended = LettuceFutures.awaitAll(60, TimeUnit.SECONDS, futures.toArray(new RedisFuture[0]));
        long last = futures.get(futures.size() - 1).toCompletableFuture().join();
        Story.say("pipeline", ended, last, redis.get("counter:0"));
    }

    private static void transactions() {
        redis.multi();
        redis.set("t", "1");
        redis.incr("t");
        redis.lpush("t", "x");
        redis.incr("t");
        TransactionResult result = redis.exec();
        Story.say("multi", result.size(), result.get(1), result.get(2), result.get(3));
        redis.multi();
        redis.set("t", "9");
        Story.say("discard", redis.discard(), redis.get("t"));
        redis.watch("t");
        try (StatefulRedisConnection<String, String> other = client.connect()) {
            other.sync().set("t", "8");
        }
        redis.multi();
        redis.set("t", "7");
        Story.say("watched", redis.exec().wasDiscarded(), redis.get("t"));
    }

    /** Threads that add to two records under WATCH: nothing is lost. */
    private static void optimists() throws Exception {
        redis.mset(Map.of("left", "1000", "right", "0"));
        Story.sideBySide(8, number -> {
            try (StatefulRedisConnection<String, String> mine = client.connect()) {
                RedisCommands<String, String> own = mine.sync();
                for (int done = 0; done < 50; ) {
                    own.watch("left", "right");
                    long left = Long.parseLong(own.get("left"));
                    long right = Long.parseLong(own.get("right"));
                    own.multi();
                    own.set("left", Long.toString(left - 1));
                    own.set("right", Long.toString(right + 1));
                    done += own.exec().wasDiscarded() ? 0 : 1;
                }
            }
            return null;
        });
        Story.say("moved", redis.mget("left", "right"));
    }

    private static void scripts() {
        String[] keys = {"s:1", "s:2"};
        String text = "redis.call('set', KEYS[1], ARGV[1]) redis.call('rpush', KEYS[2], unpack(ARGV)) "
                + "return {redis.call('get', KEYS[1]), redis.call('llen', KEYS[2]), {1, 'x', false}}";
        Object first = redis.eval(text, ScriptOutputType.MULTI, keys, "a", "b");
        String digest = redis.scriptLoad(text);
        Object second = redis.evalsha(digest, ScriptOutputType.MULTI, keys, "c");
        Story.say("scripts", digest, redis.scriptExists(digest), first, second);
        Story.say("unknown", error(() -> redis.evalsha("0".repeat(40), ScriptOutputType.VALUE)));
        Story.say("error", error(() -> redis.eval("return {err='MY word'}", ScriptOutputType.VALUE)));
    }

    private static void messages() throws Exception {
        List<String> heard = Collections.synchronizedList(new ArrayList<>());
        try (StatefulRedisPubSubConnection<String, String> listening = client.connectPubSub()) {
            listening.addListener(new RedisPubSubAdapter<>() {
                @Override
                public void message(String channel, String message) {
                    heard.add(channel + "=" + message);
                }

                @Override
                public void message(String pattern, String channel, String message) {
                    heard.add(pattern + "/" + channel + "=" + message);
                }
            });
            listening.sync().subscribe("news");
            listening.sync().psubscribe("n*s", "other.*");
            Story.say("numsub", redis.pubsubNumsub("news", "none"), redis.pubsubNumpat());
            Story.say("told", redis.publish("news", "one"), redis.publish("other.x", "two"));
            Story.until("three messages", () -> heard.size() == 3);
            Story.say("heard", new TreeSet<>(heard));
            listening.sync().unsubscribe("news");
            listening.sync().punsubscribe("n*s");
            Story.say("told later", redis.publish("news", "three"));
        }
    }

    private static void streams() {
        for (int n = 0; n < 30; n++) {
            redis.xadd("log", Map.of("n", Integer.toString(n)));
        }
        redis.xgroupCreate(StreamOffset.from("log", "0"), "group");
        redis.xgroupCreate(StreamOffset.from("fresh", "$"), "group", XGroupCreateArgs.Builder.mkstream());
        Consumer<String> ann = Consumer.from("group", "ann");
        Consumer<String> bob = Consumer.from("group", "bob");
        List<StreamMessage<String, String>> taken = redis.xreadgroup(ann,
                io.lettuce.core.XReadArgs.Builder.count(20), StreamOffset.lastConsumed("log"));
        List<StreamMessage<String, String>> rest = redis.xreadgroup(bob, StreamOffset.lastConsumed("log"));
        Story.say("read", taken.size(), rest.size(), rest.get(0).getBody());
        Story.say("acknowledged", redis.xack("log", "group", taken.get(0).getId(), taken.get(1).getId()));
        Story.say("pending", redis.xpending("log", "group").getConsumerMessageCount());
        String[] ids = {taken.get(2).getId(), taken.get(3).getId()};
        Story.say("claimed", redis.xclaim("log", bob, 0, ids).size());
        Story.say("pending", redis.xpending("log", "group").getConsumerMessageCount());
        Story.say("range", redis.xrange("log", Range.create(ids[0], ids[1])).size());
        Story.say("length", redis.xlen("log"), redis.xtrim("log", 10), redis.xlen("log"));
    }

    /** A connection waits in BLPOP, another one in XREAD. */
    private static void waiting() throws Exception {
        try (StatefulRedisConnection<String, String> list = client.connect();
                StatefulRedisConnection<String, String> stream = client.connect()) {
            RedisFuture<KeyValue<String, String>> popped = list.async().blpop(20, "none", "queue");
            RedisFuture<List<StreamMessage<String, String>>> read = stream.async().xread(
                    io.lettuce.core.XReadArgs.Builder.block(20_000), StreamOffset.latest("news"));
            Thread.sleep(200);
            redis.rpush("queue", "a");
            redis.xadd("news", Map.of("b", "c"));
            Story.say("popped", popped.get(20, TimeUnit.SECONDS));
            Story.say("arrived", read.get(20, TimeUnit.SECONDS).get(0).getBody());
            long begun = System.nanoTime();
            Story.say("nothing", list.sync().blpop(0.2, "none"));
            Story.say("waited", System.nanoTime() - begun >= 150_000_000);
        }
    }

    private static void reactive() {
        List<String> all = reactor.core.publisher.Flux.range(0, 200)
                .flatMap(n -> connection.reactive().set("r:" + n, "x" + n).thenReturn(n))
                .flatMap(n -> connection.reactive().get("r:" + n))
                .collectList().block(Duration.ofSeconds(30));
        Story.say("reactive", new TreeSet<>(all).size());
    }

    private static String error(Runnable wrong) {
        try {
            wrong.run();
            return "no error";
        } catch (RedisCommandExecutionException error) {
            return error.getClass().getSimpleName() + " " + error.getMessage();
        }
    }
}
