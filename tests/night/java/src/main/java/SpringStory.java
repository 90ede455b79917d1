import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.springframework.dao.DataAccessException;
import org.springframework.data.annotation.Id;
import org.springframework.data.domain.Range;
import org.springframework.data.redis.connection.RedisConnectionFactory;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.jedis.JedisConnectionFactory;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.data.redis.connection.stream.Consumer;
import org.springframework.data.redis.connection.stream.ReadOffset;
import org.springframework.data.redis.connection.stream.StreamOffset;
import org.springframework.data.redis.core.Cursor;
import org.springframework.data.redis.core.PartialUpdate;
import org.springframework.data.redis.core.ReactiveStringRedisTemplate;
import org.springframework.data.redis.core.RedisCallback;
import org.springframework.data.redis.core.RedisHash;
import org.springframework.data.redis.core.RedisKeyValueAdapter;
import org.springframework.data.redis.core.RedisKeyValueTemplate;
import org.springframework.data.redis.core.RedisOperations;
import org.springframework.data.redis.core.RedisTemplate;
import org.springframework.data.redis.core.ScanOptions;
import org.springframework.data.redis.core.SessionCallback;
import org.springframework.data.redis.core.StreamOperations;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.data.redis.core.convert.MappingRedisConverter;
import org.springframework.data.redis.core.index.Indexed;
import org.springframework.data.redis.core.mapping.RedisMappingContext;
import org.springframework.data.redis.core.script.RedisScript;
import org.springframework.data.redis.listener.ChannelTopic;
import org.springframework.data.redis.listener.PatternTopic;
import org.springframework.data.redis.listener.RedisMessageListenerContainer;
import org.springframework.data.redis.stream.StreamMessageListenerContainer;
import org.springframework.data.redis.support.atomic.RedisAtomicLong;
import org.springframework.data.redis.support.collections.DefaultRedisMap;
import reactor.core.publisher.Flux;

/** Spring Data Redis over Lettuce and over Jedis: templates, sessions, scripts, listeners. */
public final class SpringStory {
    private static final String HOST = "127.0.0.1";

    private final String name;
    private final RedisConnectionFactory factory;
    private final StringRedisTemplate template;

    private SpringStory(String name, RedisConnectionFactory factory) {
        this.name = name;
        this.factory = factory;
        this.template = new StringRedisTemplate(factory);
    }

    public static void main(String[] words) throws Exception {
        RedisStandaloneConfiguration server = new RedisStandaloneConfiguration(HOST, Story.begin(words));
        LettuceConnectionFactory lettuce = new LettuceConnectionFactory(server);
        lettuce.afterPropertiesSet();
        lettuce.start();
        new SpringStory("lettuce", lettuce).all();
        reactive(lettuce);
        lettuce.destroy();
        server.setDatabase(3);
        JedisConnectionFactory jedis = new JedisConnectionFactory(server);
        jedis.afterPropertiesSet();
        jedis.start();
        new SpringStory("jedis", jedis).all();
        jedis.destroy();
    }

    private void all() throws Exception {
        values();
        pages();
        sessions();
        optimists();
        pipelines();
        scripts();
        collections();
        messages();
        streams();
        groups();
        claims();
        people();
    }

    /** A class of objects that Spring keeps in hashes, with an index in sets. */
    @RedisHash("person")
    public static final class Person {
        @Id
        public String id;

        @Indexed
        public String name;

        public int age;
    }

    private void say(String what, Object... values) {
        Story.say(name + " " + what, values);
    }

    private void values() {
        say("absent", template.opsForValue().setIfAbsent("v", "1", Duration.ofMinutes(1)));
        say("again", template.opsForValue().setIfAbsent("v", "2"));
        say("old", template.opsForValue().getAndSet("v", "5"), template.opsForValue().increment("v", 4));
        say("expires", template.expire("v", Duration.ofHours(1)), (template.getExpire("v") > 3_500));
        template.opsForHash().putAll("h", Map.of("a", "1", "b", "2"));
        say("hash", new TreeMap<>(template.opsForHash().entries("h")),
                template.opsForHash().increment("h", "a", 7));
        template.opsForZSet().add("z", "one", 1);
        template.opsForZSet().add("z", "two", 2);
        say("scores", template.opsForZSet().rangeWithScores("z", 0, -1));
        template.opsForList().rightPushAll("l", "a", "b", "c");
        say("list", template.opsForList().range("l", 0, -1),
                template.opsForList().rightPopAndLeftPush("l", "m"));
        template.opsForSet().add("s", "x", "y");
        template.opsForSet().add("s2", "y", "z");
        say("sets", new TreeSet<>(template.opsForSet().union("s", "s2")),
                template.opsForSet().intersect("s", "s2"));
        try {
            template.opsForList().rightPush("h", "x");
            say("wrong type", "allowed");
        } catch (DataAccessException error) {
            say("wrong type", error.getMostSpecificCause().getMessage());
        }
    }

    private void pages() {
        for (int n = 0; n < 500; n++) {
            template.opsForHash().put("large", "f" + n, "v" + n);
            template.opsForValue().set("scan:" + n, "");
        }
        Set<String> keys = new TreeSet<>();
        ScanOptions pages = ScanOptions.scanOptions().match("scan:*").count(40).build();
        try (Cursor<String> cursor = template.scan(pages)) {
            cursor.forEachRemaining(keys::add);
        }
        Set<Object> fields = new TreeSet<>();
        try (var cursor = template.opsForHash().scan("large", ScanOptions.NONE)) {
            cursor.forEachRemaining(entry -> fields.add(entry.getKey()));
        }
        say("scanned", keys.size(), fields.size(), template.delete(keys));
    }

    /** What a session does between MULTI and EXEC, with the typed operations of Spring. */
    private interface Steps {
        Object in(RedisOperations<String, String> session);
    }

    private Object session(Steps steps) {
        return template.execute(new SessionCallback<Object>() {
            @Override
            @SuppressWarnings("unchecked")
            public <K, V> Object execute(RedisOperations<K, V> session) {
                return steps.in((RedisOperations<String, String>) session);
            }
        });
    }

    private void sessions() {
        say("multi", session(session -> {
            session.multi();
            session.opsForValue().set("t", "1");
            session.opsForValue().increment("t");
            session.opsForSet().add("t:set", "a", "b");
            session.opsForValue().get("t");
            return session.exec();
        }));
        say("discard", session(session -> {
            session.multi();
            session.opsForValue().set("t", "9");
            session.discard();
            return session.opsForValue().get("t");
        }));
        say("watched", session(session -> {
            session.watch("t");
            template.opsForValue().set("t", "8");
            session.multi();
            session.opsForValue().set("t", "7");
            return session.exec();
        }));
        try {
            session(session -> {
                session.multi();
                session.opsForValue().set("t", "6");
                session.opsForList().rightPush("t", "x");
                return session.exec();
            });
            say("error", "none");
        } catch (DataAccessException error) {
            say("error", error.getMostSpecificCause().getMessage());
        }
        say("value", template.opsForValue().get("t"));
    }

    /** Threads that move from one record to another under WATCH: nothing is lost. */
    private void optimists() throws Exception {
        template.opsForValue().multiSet(Map.of("left", "1000", "right", "0"));
        Story.sideBySide(6, number -> {
            for (int done = 0; done < 40; ) {
                Object results = session(session -> {
                    session.watch(List.of("left", "right"));
                    long left = Long.parseLong(session.opsForValue().get("left"));
                    long right = Long.parseLong(session.opsForValue().get("right"));
                    session.multi();
                    session.opsForValue().set("left", Long.toString(left - 1));
                    session.opsForValue().set("right", Long.toString(right + 1));
                    return session.exec();
                });
                done += ((List<?>) results).isEmpty() ? 0 : 1;
            }
            return null;
        });
        say("moved", template.opsForValue().multiGet(List.of("left", "right")));
    }

    private void pipelines() {
        List<Object> replies = template.executePipelined((RedisCallback<Object>) connection -> {
            for (int n = 0; n < 5_000; n++) {
                connection.stringCommands().incr(("counter:" + n % 7).getBytes());
            }
            return null;
        });
        say("pipeline", replies.size(), replies.get(4_999));
    }

    private void scripts() {
        RedisScript<Boolean> swap = RedisScript.of("if redis.call('get', KEYS[1]) == ARGV[1] then "
                + "redis.call('set', KEYS[1], ARGV[2]) return true end return false", Boolean.class);
        template.opsForValue().set("swap", "a");
        say("swap", template.execute(swap, List.of("swap"), "a", "b"),
                template.execute(swap, List.of("swap"), "a", "c"), template.opsForValue().get("swap"));
        RedisScript<List> list = RedisScript.of("return {KEYS[1], ARGV[1], 7}", List.class);
        say("list", template.execute(list, List.of("k"), "v"));
        RedisScript<Long> sum = RedisScript.of("local s = 0 for _, k in ipairs(KEYS) do "
                + "s = s + redis.call('incrby', k, ARGV[1]) end return s", Long.class);
        say("sum", template.execute(sum, List.of("s:1", "s:2", "s:3"), "5"));
        try {
            RedisScript<Long> wrong = RedisScript.of("return redis.call('incr', KEYS[1])", Long.class);
            template.execute(wrong, List.of("swap"));
            say("wrong", "allowed");
        } catch (DataAccessException error) {
            say("wrong", error.getMostSpecificCause().getMessage());
        }
    }

    private void collections() throws Exception {
        RedisAtomicLong number = new RedisAtomicLong("atomic", factory, 10);
        Story.sideBySide(4, one -> {
            for (int n = 0; n < 50; n++) {
                number.incrementAndGet();
            }
            return null;
        });
        say("atomic", number.get(), number.compareAndSet(210, 1), number.compareAndSet(210, 2));
        DefaultRedisMap<String, String> map = new DefaultRedisMap<>("map", template);
        say("map", map.putIfAbsent("a", "1"), map.putIfAbsent("a", "2"), map.replace("a", "1", "3"),
                map.replace("a", "1", "4"), new TreeMap<>(map));
    }

    private void messages() throws Exception {
        List<String> heard = Collections.synchronizedList(new ArrayList<>());
        RedisMessageListenerContainer container = new RedisMessageListenerContainer();
        container.setConnectionFactory(factory);
        container.addMessageListener((text, from) -> heard.add("topic " + text), new ChannelTopic("news"));
        container.addMessageListener((text, from) -> heard.add("pattern " + text), new PatternTopic("n*s"));
        container.afterPropertiesSet();
        container.start();
        Story.until("the container listens", container::isListening);
        say("told", template.convertAndSend("news", "one"));
        Story.until("two messages", () -> heard.size() == 2);
        container.addMessageListener((text, from) -> heard.add("late " + text), new ChannelTopic("more"));
        Story.until("a channel is added", () -> template.convertAndSend("more", "two") == 1);
        Story.until("a third message", () -> heard.size() == 3);
        say("heard", new TreeSet<>(heard));
        container.destroy();
        Story.until("the container is gone", () -> template.convertAndSend("news", "three") == 0);
    }

    /** A listener hears what is added, from the first entry on. */
    private void streams() throws Exception {
        List<String> heard = Collections.synchronizedList(new ArrayList<>());
        var options = StreamMessageListenerContainer.StreamMessageListenerContainerOptions.builder()
                .pollTimeout(Duration.ofMillis(100)).batchSize(7).build();
        var container = StreamMessageListenerContainer.create(factory, options);
        StreamOffset<String> start = StreamOffset.fromStart("events");
        var all = container.receive(start, message -> heard.add(message.getValue().get("n")));
        container.start();
        say("listens", all.await(Duration.ofSeconds(20)));
        for (int n = 0; n < 50; n++) {
            template.opsForStream().add("events", Map.of("n", Integer.toString(n)));
        }
        Story.until("fifty events", () -> heard.size() == 50);
        say("first and last", heard.get(0), heard.get(49));
        container.stop();
    }

    /** Two consumers of a group share the work. */
    private void groups() throws Exception {
        say("group", template.opsForStream().createGroup("events", ReadOffset.from("0"), "group"));
        Set<String> seen = Collections.synchronizedSet(new TreeSet<>());
        var options = StreamMessageListenerContainer.StreamMessageListenerContainerOptions.builder()
                .pollTimeout(Duration.ofMillis(100)).batchSize(3).build();
        var container = StreamMessageListenerContainer.create(factory, options);
        StreamOffset<String> next = StreamOffset.create("events", ReadOffset.lastConsumed());
        for (String consumer : List.of("ann", "bob")) {
            Consumer one = Consumer.from("group", consumer);
            container.receiveAutoAck(one, next, message -> seen.add(message.getValue().get("n")));
        }
        container.start();
        for (int n = 50; n < 100; n++) {
            template.opsForStream().add("events", Map.of("n", Integer.toString(n)));
        }
        Story.until("a hundred events", () -> seen.size() == 100);
        Story.until("all is acknowledged",
                () -> template.opsForStream().pending("events", "group").getTotalPendingMessages() == 0);
        container.stop();
    }

    /** A consumer takes over what another one has left undone. */
    private void claims() {
        StreamOperations<String, Object, Object> streams = template.opsForStream();
        streams.createGroup("undone", ReadOffset.from("0"), "group");
        for (int n = 0; n < 5; n++) {
            streams.add("undone", Map.of("n", Integer.toString(n)));
        }
        Consumer gone = Consumer.from("group", "gone");
        var taken = streams.read(gone, StreamOffset.create("undone", ReadOffset.lastConsumed()));
        var claimed = streams.claim("undone", "group", "new", Duration.ZERO, taken.get(0).getId());
        say("claimed", taken.size(), claimed.get(0).getValue());
        say("pending", new TreeMap<>(streams.pending("undone", "group").getPendingMessagesPerConsumer()));
        say("acknowledged", streams.acknowledge("undone", "group", claimed.get(0).getId()));
        say("detail", streams.pending("undone", gone, Range.unbounded(), 10).size());
        say("consumers", streams.consumers("undone", "group").size());
        say("trimmed", streams.trim("undone", 2), streams.size("undone"));
    }

    /** Objects, found by their index, changed as a whole and in part. */
    private void people() {
        RedisTemplate<Object, Object> bare = new RedisTemplate<>();
        bare.setConnectionFactory(factory);
        bare.afterPropertiesSet();
        RedisMappingContext context = new RedisMappingContext();
        MappingRedisConverter converter = new MappingRedisConverter(context);
        converter.afterPropertiesSet();
        RedisKeyValueAdapter adapter = new RedisKeyValueAdapter(bare, converter);
        adapter.afterPropertiesSet();
        RedisKeyValueTemplate objects = new RedisKeyValueTemplate(adapter, context);
        List<String> ids = new ArrayList<>();
        for (String called : List.of("ann", "bob", "ann")) {
            Person person = new Person();
            person.name = called;
            ids.add(objects.insert(person).id);
        }
        objects.update(new PartialUpdate<>(ids.get(0), Person.class).set("age", 7).set("name", "eve"));
        Person changed = objects.findById(ids.get(0), Person.class).orElseThrow();
        say("object", changed.name, changed.age, objects.count(Person.class));
        say("index", template.opsForSet().size("person:name:ann"), template.hasKey("person:name:eve"));
        objects.delete(changed);
        say("deleted", objects.count(Person.class), template.hasKey("person:name:eve"));
    }

    private static void reactive(LettuceConnectionFactory factory) {
        ReactiveStringRedisTemplate template = new ReactiveStringRedisTemplate(factory);
        List<Long> counts = Flux.range(0, 300)
                .flatMap(n -> template.opsForValue().increment("flux:" + n % 3))
                .collectSortedList().block(Duration.ofSeconds(30));
        Story.say("reactive", counts.size(), counts.get(299));
        ScanOptions pages = ScanOptions.scanOptions().match("flux:*").build();
        Story.say("reactive scan", template.scan(pages).count().block());
        RedisScript<Long> sum = RedisScript.of("return redis.call('incrby', KEYS[1], ARGV[1])", Long.class);
        Story.say("reactive script", template.execute(sum, List.of("flux:0"), List.of("5")).blockFirst());
    }
}
