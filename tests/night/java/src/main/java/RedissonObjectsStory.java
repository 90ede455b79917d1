import static org.redisson.api.RScript.Mode.READ_ONLY;
import static org.redisson.api.RScript.ReturnType.LIST;

import java.io.Serializable;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RAtomicLong;
import org.redisson.api.RBlockingQueue;
import org.redisson.api.RBloomFilter;
import org.redisson.api.RBoundedBlockingQueue;
import org.redisson.api.RBucket;
import org.redisson.api.RLexSortedSet;
import org.redisson.api.RList;
import org.redisson.api.RListMultimap;
import org.redisson.api.RLocalCachedMap;
import org.redisson.api.RLongAdder;
import org.redisson.api.RPriorityQueue;
import org.redisson.api.RReliableTopic;
import org.redisson.api.RRingBuffer;
import org.redisson.api.RScheduledExecutorService;
import org.redisson.api.RScoredSortedSet;
import org.redisson.api.RScript;
import org.redisson.api.RSet;
import org.redisson.api.RSetCache;
import org.redisson.api.RSetMultimap;
import org.redisson.api.RStream;
import org.redisson.api.RTimeSeries;
import org.redisson.api.RedissonClient;
import org.redisson.api.WorkerOptions;
import org.redisson.api.options.LocalCachedMapOptions;
import org.redisson.api.stream.StreamAddArgs;
import org.redisson.api.stream.StreamCreateGroupArgs;
import org.redisson.api.stream.StreamMessageId;
import org.redisson.api.stream.StreamReadGroupArgs;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

/** Further objects of Redisson, with its own way to write values: collections, services, tasks. */
public final class RedissonObjectsStory {
    private static RedissonClient ours;
    private static RedissonClient theirs;

    /** A service that the other client offers. */
    public interface Adder {
        int add(int left, int right);
    }

    /** A task that is carried out by a worker. */
    public static final class Task implements Callable<String>, Serializable {
        private final String word;

        public Task(String word) {
            this.word = word;
        }

        @Override
        public String call() {
            return word + " ran";
        }
    }

    public static void main(String[] words) throws Exception {
        Config config = new Config();
        config.useSingleServer().setAddress("redis://127.0.0.1:" + Story.begin(words));
        ours = Redisson.create(config);
        theirs = Redisson.create(config);
        values();
        lists();
        sets();
        multimaps();
        queues();
        counters();
        filters();
        series();
        streams();
        cached();
        services();
        scripts();
        ours.shutdown();
        theirs.shutdown();
    }

    private static void values() throws Exception {
        RBucket<String> value = ours.getBucket("value");
        value.set("a");
        Story.say("swapped", value.compareAndSet("a", "b"), value.compareAndSet("a", "c"),
                value.getAndSet("d"));
        Story.say("taken", value.getAndDelete(), value.setIfAbsent("e", Duration.ofSeconds(60)), value.get());
        ours.getBuckets().set(Map.of("v:1", 1, "v:2", 2));
        Story.say("several", new TreeMap<>(theirs.getBuckets().get("v:1", "v:2", "v:3")));
        Story.say("none of them", ours.getBuckets().trySet(Map.of("v:2", 1, "v:3", 3)));
        Story.say("deleted", ours.getKeys().deleteByPattern("v:*"), ours.getKeys().countExists("v:1"));
    }

    private static void lists() {
        RList<String> list = ours.getList("list");
        list.addAll(List.of("a", "b", "c", "d"));
        list.add(1, "x");
        list.remove("b");
        Story.say("list", theirs.getList("list").readAll(), list.indexOf("x"), list.addAfter("x", "y"));
        list.trim(0, 2);
        Story.say("trimmed", list.readAll(), list.set(0, "z"), list.subList(0, 2), list.contains("q"));
    }

    private static void sets() throws Exception {
        RSet<String> set = ours.getSet("set");
        set.addAll(List.of("a", "b", "c"));
        Story.say("moved", set.move("other", "a"), new TreeSet<>(set.readAll()));
        RScoredSortedSet<String> scored = ours.getScoredSortedSet("scored");
        scored.addAll(Map.of("a", 1.0, "b", 2.0, "c", 3.0));
        Story.say("scored", scored.rank("b"), scored.addScoreAndGetRank("a", 10), scored.pollFirst());
        Story.say("rest", scored.entryRange(0, -1).size(), scored.takeFirst(), scored.last());
        RLexSortedSet words = ours.getLexSortedSet("words");
        words.addAll(List.of("a", "b", "c", "d"));
        Story.say("words", words.rangeTail("b", false), words.count("a", true, "c", true), words.pollFirst());
        RSetCache<String> cache = ours.getSetCache("cache");
        cache.add("short", 1, TimeUnit.SECONDS);
        cache.add("long");
        Story.say("there", cache.contains("short"));
        Story.until("a member is forgotten", () -> !cache.contains("short"));
        Story.say("members", cache.readAll());
        cache.destroy();
    }

    private static void multimaps() {
        RListMultimap<String, String> lists = ours.getListMultimap("lists");
        lists.putAll("a", List.of("1", "2", "1"));
        lists.put("b", "3");
        Story.say("lists", lists.getAll("a"), lists.size(), lists.keySize(),
                lists.replaceValues("b", List.of("4")));
        RSetMultimap<String, String> sets = ours.getSetMultimap("sets");
        sets.putAll("a", List.of("1", "2", "1"));
        Story.say("sets", sets.size(), sets.removeAll("a").size());
    }

    private static void queues() throws Exception {
        RBoundedBlockingQueue<Integer> bounded = ours.getBoundedBlockingQueue("bounded");
        bounded.trySetCapacity(3);
        List<Integer> sums = Story.sideBySide(4, number -> {
            int sum = 0;
            for (int n = 1; n <= 50; n++) {
                if (number < 2) {
                    bounded.put(n);
                } else {
                    sum += theirs.<Integer>getBoundedBlockingQueue("bounded").take();
                }
            }
            return sum;
        });
        Story.say("bounded", sums.stream().mapToInt(Integer::intValue).sum(), bounded.remainingCapacity());
        RPriorityQueue<Integer> sorted = ours.getPriorityQueue("sorted");
        sorted.addAll(List.of(3, 1, 2));
        Story.say("sorted", sorted.poll(), sorted.readAll());
        RRingBuffer<Integer> ring = ours.getRingBuffer("ring");
        ring.trySetCapacity(2);
        ring.addAll(List.of(1, 2, 3));
        Story.say("ring", ring.readAll(), ring.remainingCapacity());
        List<Object> handed = Story.sideBySide(2, number -> number == 0
                ? ours.<String>getTransferQueue("handed").tryTransfer("it", 20, TimeUnit.SECONDS)
                : theirs.<String>getTransferQueue("handed").take());
        Story.say("handed over", handed);
        List<String> moved = Story.sideBySide(2, number -> {
            if (number == 0) {
                RBlockingQueue<String> from = ours.getBlockingQueue("from");
                return from.pollLastAndOfferFirstTo("to", 20, TimeUnit.SECONDS);
            }
            Thread.sleep(200);
            theirs.<String>getQueue("from").add("moved");
            return "sent";
        });
        Story.say("moved", moved, ours.getQueue("to").readAll());
    }

    private static void counters() throws Exception {
        RLongAdder first = ours.getLongAdder("adder");
        RLongAdder second = theirs.getLongAdder("adder");
        first.add(3);
        second.increment();
        Story.say("adder", first.sum(), second.sum());
        ours.getIdGenerator("numbers").tryInit(10, 50);
        List<Long> numbers = Story.sideBySide(4, number -> {
            RedissonClient mine = number % 2 == 0 ? ours : theirs;
            TreeSet<Long> own = new TreeSet<>();
            for (int n = 0; n < 100; n++) {
                own.add(mine.getIdGenerator("numbers").nextId());
            }
            ours.<Long>getSet("given").addAll(own);
            return (long) own.size();
        });
        Story.say("numbers", numbers, ours.getSet("given").size());
        RAtomicLong number = ours.getAtomicLong("long");
        Story.say("atomic", number.addAndGet(7), number.compareAndSet(7, 9), number.getAndDelete());
        Story.say("fraction", ours.getAtomicDouble("double").addAndGet(0.5));
    }

    private static void filters() {
        RBloomFilter<String> filter = ours.getBloomFilter("filter");
        Story.say("filter", filter.tryInit(10_000, 0.01), filter.add("a"), filter.add("a"));
        Story.say("contains", filter.contains("a"), filter.contains("b"), filter.count(), filter.getSize());
        ours.getBitSet("bits").set(10, 20);
        Story.say("bits", ours.getBitSet("bits").cardinality(), ours.getBitSet("bits").length());
    }

    private static void series() {
        RTimeSeries<String, String> series = ours.getTimeSeries("series");
        series.addAll(Map.of(1L, "a", 2L, "b", 3L, "c"));
        Story.say("series", series.range(1, 2), series.get(3), series.removeRange(1, 2), series.size());
        series.destroy();
    }

    private static void streams() {
        RStream<String, String> stream = ours.getStream("stream");
        StreamMessageId id = stream.add(StreamAddArgs.entry("k", "v"));
        stream.createGroup(StreamCreateGroupArgs.name("group").id(StreamMessageId.ALL));
        var read = stream.readGroup("group", "ann", StreamReadGroupArgs.neverDelivered());
        Story.say("stream", read.values(), stream.getPendingInfo("group").getTotal());
        var claimed = stream.autoClaim("group", "bob", 0, TimeUnit.SECONDS, StreamMessageId.ALL, 5);
        Story.say("claimed", claimed.getMessages().values(), stream.ack("group", id));
    }

    private static void cached() throws Exception {
        RLocalCachedMap<String, String> mine = ours.getLocalCachedMap(LocalCachedMapOptions.name("near"));
        RLocalCachedMap<String, String> other = theirs.getLocalCachedMap(LocalCachedMapOptions.name("near"));
        mine.put("a", "1");
        Story.say("near", other.get("a"));
        mine.put("a", "2");
        Story.until("the other cache is told", () -> "2".equals(other.get("a")));
        mine.destroy();
        other.destroy();
    }

    private static void services() throws Exception {
        theirs.getRemoteService("service").register(Adder.class, (left, right) -> left + right, 2);
        Adder adder = ours.getRemoteService("service").get(Adder.class);
        Story.say("service", adder.add(2, 3), adder.add(40, 2));
        theirs.getExecutorService("tasks").registerWorkers(WorkerOptions.defaults().workers(2));
        RScheduledExecutorService tasks = ours.getExecutorService("tasks");
        Story.say("task", tasks.submit(new Task("now")).get(20, TimeUnit.SECONDS));
        var late = tasks.schedule(new Task("later"), 300, TimeUnit.MILLISECONDS);
        Story.say("late task", late.get(20, TimeUnit.SECONDS));
        RReliableTopic topic = theirs.getReliableTopic("reliable");
        BlockingQueue<String> heard = new LinkedBlockingQueue<>();
        topic.addListener(String.class, (channel, message) -> heard.add(message));
        Story.until("a listener", () -> ours.getReliableTopic("reliable").countSubscribers() == 1);
        ours.getReliableTopic("reliable").publish("one");
        Story.say("heard", heard.poll(20, TimeUnit.SECONDS));
    }

    private static void scripts() {
        RScript script = ours.getScript(StringCodec.INSTANCE);
        String digest = script.scriptLoad("return {KEYS[1], ARGV[1]}");
        Story.say("script", digest, script.scriptExists(digest));
        List<Object> keys = List.of("k");
        Story.say("ran", script.<Object>evalSha(READ_ONLY, digest, LIST, keys, "v"));
    }
}
