import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import redis.clients.jedis.AbstractTransaction;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.Response;
import redis.clients.jedis.StreamEntryID;
import redis.clients.jedis.Transaction;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.params.XReadGroupParams;
import redis.clients.jedis.params.XReadParams;
import redis.clients.jedis.resps.ScanResult;
import redis.clients.jedis.resps.StreamEntry;

/** Jedis: the pooled client and the bare one; pipelines, transactions, scripts, messages, streams. */
public final class JedisStory {
    private static int port;
    private static RedisClient redis;

    public static void main(String[] words) throws Exception {
        port = Story.begin(words);
        redis = RedisClient.create("127.0.0.1", port);
        values();
        pipelines();
        transactions();
        optimists();
        scripts();
        messages();
        streams();
        waiting();
        redis.close();
    }

    private static void values() {
        Story.say("set", redis.set("v", "1", SetParams.setParams().nx().px(60_000)));
        Story.say("set again", redis.set("v", "2", SetParams.setParams().nx()));
        redis.hset("h", Map.of("a", "1", "b", "2"));
        Story.say("hash", new TreeMap<>(redis.hgetAll("h")));
        redis.zadd("z", Map.of("one", 1.5, "two", 2.5));
        Story.say("scores", redis.zrangeWithScores("z", 0, -1));
        redis.sadd("m", "a", "b", "c");
        Story.say("members", new TreeSet<>(redis.smembers("m")));
        for (int n = 0; n < 500; n++) {
            redis.set("scan:" + n, "");
        }
        TreeSet<String> names = new TreeSet<>();
        String cursor = ScanParams.SCAN_POINTER_START;
        do {
            ScanResult<String> page = redis.scan(cursor, new ScanParams().match("scan:*").count(50));
            names.addAll(page.getResult());
            cursor = page.getCursor();
        } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
        Story.say("scanned", names.size());
        Story.say("wrong type", error(() -> redis.lpush("h", "x")));
    }

    private static void pipelines() {
        List<Response<Long>> replies = new ArrayList<>();
        try (Pipeline pipeline = (Pipeline) redis.pipelined()) {
            for (int n = 0; n < 10_000; n++) {
                replies.add(pipeline.incr("counter:" + n % 7));
            }
            Response<Long> wrong = pipeline.lpush("counter:0", "x");
            pipeline.sync();
            Story.say("pipeline", replies.get(9_999).get(), redis.get("counter:0"));
            Story.say("wrong", error(wrong::get));
        }
    }

    private static void transactions() {
        try (AbstractTransaction many = redis.multi()) {
            many.set("t", "1");
            Response<Long> two = many.incr("t");
            many.lpush("t", "x");
            many.incr("t");
            List<Object> results = many.exec();
            Story.say("multi", results.size(), two.get(), results.get(2), results.get(3));
        }
        try (AbstractTransaction none = redis.multi()) {
            none.set("t", "9");
            Story.say("discard", none.discard(), redis.get("t"));
        }
        try (AbstractTransaction watching = redis.transaction(false)) {
            watching.watch("t");
            redis.set("t", "8");
            watching.multi();
            watching.set("t", "7");
            Story.say("watched", watching.exec(), redis.get("t"));
        }
    }

    /** Threads that move from one record to another under WATCH: nothing is lost. */
    private static void optimists() throws Exception {
        redis.mset("left", "1000", "right", "0");
        Story.sideBySide(8, number -> {
            try (Jedis own = new Jedis("127.0.0.1", port)) {
                for (int done = 0; done < 50; ) {
                    own.watch("left", "right");
                    long left = Long.parseLong(own.get("left"));
                    long right = Long.parseLong(own.get("right"));
                    Transaction change = own.multi();
                    change.set("left", Long.toString(left - 1));
                    change.set("right", Long.toString(right + 1));
                    done += change.exec() == null ? 0 : 1;
                }
            }
            return null;
        });
        Story.say("moved", redis.mget("left", "right"));
    }

    private static void scripts() {
        String text = "redis.call('set', KEYS[1], ARGV[1]) redis.call('rpush', KEYS[2], unpack(ARGV)) "
                + "return {redis.call('get', KEYS[1]), redis.call('llen', KEYS[2]), {1, 'x', false}}";
        Object first = redis.eval(text, 2, "s:1", "s:2", "a", "b");
        String digest = redis.scriptLoad(text);
        Object second = redis.evalsha(digest, List.of("s:1", "s:2"), List.of("c"));
        Story.say("scripts", digest, redis.scriptExists(List.of(digest)), first, second);
        Story.say("unknown", error(() -> redis.evalsha("0".repeat(40))));
        Story.say("error", error(() -> redis.eval("return redis.error_reply('MY word')")));
        String library = "#!lua name=shop\nredis.register_function('sell', function(keys, args) "
                + "return redis.call('decrby', keys[1], args[1]) end)";
        Story.say("library", redis.functionLoadReplace(library));
        redis.set("stock", "10");
        Story.say("function", redis.fcall("sell", List.of("stock"), List.of("3")));
    }

    private static void messages() throws Exception {
        List<String> heard = Collections.synchronizedList(new ArrayList<>());
        JedisPubSub listener = new JedisPubSub() {
            @Override
            public void onMessage(String channel, String message) {
                heard.add(channel + "=" + message);
            }

            @Override
            public void onPMessage(String pattern, String channel, String message) {
                heard.add(pattern + "/" + channel + "=" + message);
            }
        };
        Thread thread = new Thread(() -> redis.subscribe(listener, "news", "more"));
        thread.start();
        Story.until("two channels", () -> listener.getSubscribedChannels() == 2);
        listener.psubscribe("n*s");
        Story.until("a pattern", () -> listener.getSubscribedChannels() == 3);
        Story.say("told", redis.publish("news", "one"), redis.publish("more", "two"));
        Story.until("three messages", () -> heard.size() == 3);
        Story.say("heard", new TreeSet<>(heard));
        listener.unsubscribe();
        listener.punsubscribe();
        thread.join(20_000);
        Story.say("told later", redis.publish("news", "three"), thread.isAlive());
    }

    private static void streams() {
        for (int n = 0; n < 30; n++) {
            redis.xadd("log", StreamEntryID.NEW_ENTRY, Map.of("n", Integer.toString(n)));
        }
        Story.say("group", redis.xgroupCreate("log", "group", new StreamEntryID(0, 0), false));
        Map<String, StreamEntryID> fresh = Map.of("log", StreamEntryID.XREADGROUP_UNDELIVERED_ENTRY);
        XReadGroupParams some = XReadGroupParams.xReadGroupParams().count(20);
        XReadGroupParams every = XReadGroupParams.xReadGroupParams();
        List<StreamEntry> taken = redis.xreadGroup("group", "ann", some, fresh).get(0).getValue();
        List<StreamEntry> rest = redis.xreadGroup("group", "bob", every, fresh).get(0).getValue();
        Story.say("read", taken.size(), rest.size(), rest.get(0).getFields());
        Story.say("acknowledged", redis.xack("log", "group", taken.get(0).getID(), taken.get(1).getID()));
        Story.say("pending", new TreeMap<>(redis.xpending("log", "group").getConsumerMessageCount()));
        Story.say("groups", redis.xinfoGroups("log").get(0).getPending());
        Story.say("length", redis.xlen("log"), redis.xtrim("log", 10, false), redis.xlen("log"));
    }

    private static void waiting() throws Exception {
        List<Object> seen = Story.sideBySide(3, number -> {
            if (number == 0) {
                return redis.blpop(20, "none", "queue");
            }
            if (number == 1) {
                return redis.xread(XReadParams.xReadParams().block(20_000),
                        Map.of("arrivals", new StreamEntryID(0, 0))).get(0).getValue().get(0).getFields();
            }
            Thread.sleep(200);
            redis.rpush("queue", "a");
            return redis.xadd("arrivals", StreamEntryID.NEW_ENTRY, Map.of("b", "c")) != null;
        });
        Story.say("arrived", seen);
        Story.say("nothing", redis.blpop(0.2, "none"));
    }

    private static String error(Runnable wrong) {
        try {
            wrong.run();
            return "no error";
        } catch (JedisDataException error) {
            return error.getClass().getSimpleName() + " " + error.getMessage();
        }
    }
}
