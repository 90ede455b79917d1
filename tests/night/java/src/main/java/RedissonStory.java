import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.redisson.Redisson;
import org.redisson.api.BatchOptions;
import org.redisson.api.BatchResult;
import org.redisson.api.RBatch;
import org.redisson.api.RBlockingQueue;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RDelayedQueue;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RMap;
import org.redisson.api.RMapCache;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RRateLimiter;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RSemaphore;
import org.redisson.api.RTopic;
import org.redisson.api.RTransaction;
import org.redisson.api.RateType;
import org.redisson.api.RedissonClient;
import org.redisson.api.TransactionOptions;
import org.redisson.api.map.event.EntryCreatedListener;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;
import org.redisson.config.Protocol;

/** Redisson: two clients that meet in locks, limits, maps, queues, semaphores, latches and topics. */
public final class RedissonStory {
    private static final int WATCHDOG_MS = 900;
    private static final String FAIR_QUEUE = "redisson_lock_queue:{fair}";

    private static int port;
    private static RedissonClient ours;
    private static RedissonClient theirs;

    public static void main(String[] words) throws Exception {
        port = Story.begin(words);
        ours = client(Protocol.RESP2);
        theirs = client(Protocol.RESP3);
        lockUnderContention();
        leases();
        watchdog();
        fairness();
        moreLocks();
        limiter();
        maps();
        mapsThatForget();
        delayed();
        semaphores();
        latches();
        topics();
        batches();
        transactions();
        ours.shutdown();
        theirs.shutdown();
    }

    private static RedissonClient client(Protocol protocol) {
        Config config = new Config();
        config.setCodec(StringCodec.INSTANCE).setProtocol(protocol).setLockWatchdogTimeout(WATCHDOG_MS);
        config.useSingleServer().setAddress("redis://127.0.0.1:" + port);
        return Redisson.create(config);
    }

    private static RedissonClient either(int number) {
        return number % 2 == 0 ? ours : theirs;
    }

    /** Threads of two clients read, wait and write under one lock: no step is lost. */
    private static void lockUnderContention() throws Exception {
        ours.<String>getBucket("count").set("0");
        AtomicInteger inside = new AtomicInteger();
        List<Boolean> alone = Story.sideBySide(8, number -> {
            RedissonClient mine = either(number);
            boolean always = true;
            for (int n = 0; n < 40; n++) {
                RLock lock = mine.getLock("lock");
                lock.lock();
                always &= inside.incrementAndGet() == 1;
                int count = Integer.parseInt(mine.<String>getBucket("count").get());
                mine.<String>getBucket("count").set(Integer.toString(count + 1));
                inside.decrementAndGet();
                lock.unlock();
            }
            return always;
        });
        Story.say("alone", new TreeSet<>(alone), ours.getBucket("count").get());
    }

    private static void leases() throws Exception {
        RLock mine = ours.getLock("lease");
        RLock other = theirs.getLock("lease");
        mine.lock(1000, TimeUnit.MILLISECONDS);
        mine.lock(1000, TimeUnit.MILLISECONDS);
        Story.say("held", mine.getHoldCount(), other.isLocked(), other.tryLock());
        long begun = System.nanoTime();
        Story.say("after the lease", other.tryLock(10, 60, TimeUnit.SECONDS), mine.isHeldByCurrentThread());
        Story.say("waited", System.nanoTime() - begun >= 200_000_000);
        try {
            mine.unlock();
            Story.say("unlock", "allowed");
        } catch (IllegalMonitorStateException error) {
            Story.say("unlock", "refused");
        }
        other.unlock();
        Story.say("free", mine.isLocked());
    }

    /** A lock without a lease is renewed as long as its holder lives. */
    private static void watchdog() throws Exception {
        RLock mine = ours.getLock("renewed");
        mine.lock();
        Thread.sleep(WATCHDOG_MS * 3);
        Story.say("renewed", mine.isHeldByCurrentThread(), theirs.getLock("renewed").tryLock());
        mine.unlock();
        RedissonClient mortal = client(Protocol.RESP2);
        mortal.getLock("renewed").lock();
        mortal.shutdown();
        Story.say("holder gone", theirs.getLock("renewed").tryLock(20, TimeUnit.SECONDS));
        theirs.getLock("renewed").unlock();
    }

    /** A fair lock is given in the order in which threads of both clients came. */
    private static void fairness() throws Exception {
        List<Integer> order = Collections.synchronizedList(new ArrayList<>());
        RLock first = ours.getFairLock("fair");
        first.lock();
        List<Thread> threads = new ArrayList<>();
        for (int number = 0; number < 6; number++) {
            int mine = number;
            Thread thread = new Thread(() -> {
                RLock lock = either(mine).getFairLock("fair");
                lock.lock();
                order.add(mine);
                lock.unlock();
            });
            threads.add(thread);
            thread.start();
            Story.until("a thread waits", () -> ours.getList(FAIR_QUEUE).size() == mine + 1);
        }
        first.unlock();
        for (Thread thread : threads) {
            thread.join(60_000);
        }
        Story.say("fair", order);
    }

    private static void moreLocks() throws Exception {
        RReadWriteLock both = ours.getReadWriteLock("both");
        RReadWriteLock others = theirs.getReadWriteLock("both");
        both.readLock().lock();
        Story.say("readers", others.readLock().tryLock(), others.writeLock().tryLock());
        others.readLock().unlock();
        both.readLock().unlock();
        Story.say("writer", others.writeLock().tryLock(), both.readLock().tryLock());
        others.writeLock().unlock();
        RFencedLock fenced = ours.getFencedLock("fenced");
        long before = fenced.lockAndGetToken();
        fenced.unlock();
        long after = theirs.getFencedLock("fenced").lockAndGetToken();
        theirs.getFencedLock("fenced").unlock();
        Story.say("fence", after - before);
        RLock several = ours.getMultiLock(ours.getLock("m:1"), ours.getLock("m:2"), ours.getLock("m:3"));
        several.lock();
        Story.say("several", theirs.getLock("m:2").tryLock());
        several.unlock();
        RLock spinning = theirs.getSpinLock("spin");
        ours.getSpinLock("spin").lock(300, TimeUnit.MILLISECONDS);
        Story.say("spin", spinning.tryLock(10, TimeUnit.SECONDS));
        spinning.unlock();
    }

    /** Of many tries side by side, as many are let through as the rate says. */
    private static void limiter() throws Exception {
        RRateLimiter limit = ours.getRateLimiter("rate");
        Story.say("rate", limit.trySetRate(RateType.OVERALL, 25, Duration.ofSeconds(60)));
        Story.say("rate again", limit.trySetRate(RateType.OVERALL, 5, Duration.ofSeconds(60)));
        List<Integer> allowed = Story.sideBySide(8, number -> {
            int passed = 0;
            for (int n = 0; n < 20; n++) {
                passed += either(number).getRateLimiter("rate").tryAcquire() ? 1 : 0;
            }
            return passed;
        });
        Story.say("allowed", allowed.stream().mapToInt(Integer::intValue).sum(), limit.availablePermits());
        RRateLimiter fast = theirs.getRateLimiter("fast");
        fast.trySetRate(RateType.OVERALL, 2, Duration.ofMillis(300));
        long begun = System.nanoTime();
        for (int n = 0; n < 6; n++) {
            fast.acquire();
        }
        Story.say("slowed down", System.nanoTime() - begun >= 500_000_000);
    }

    private static void maps() throws Exception {
        RMap<String, String> map = ours.getMap("map");
        Story.say("put", map.put("a", "1"), map.put("a", "2"), map.putIfAbsent("a", "3"));
        Story.say("replace", map.replace("a", "9", "4"), map.replace("a", "2", "4"), map.get("a"));
        map.putAll(Map.of("b", "5", "c", "6", "d", "7"));
        Story.say("all", new TreeMap<>(map.getAll(Set.of("a", "b", "x"))), map.size());
        Story.say("removed", map.remove("c", "x"), map.fastRemove("c", "d"));
        Story.say("added", ours.<String, Integer>getMap("map").addAndGet("b", 2));
        Story.sideBySide(6, number -> {
            for (int n = 0; n < 25; n++) {
                either(number).<String, String>getMap("map").merge("sum", "1", (a, b) -> {
                    return Integer.toString(Integer.parseInt(a) + Integer.parseInt(b));
                });
            }
            return null;
        });
        Story.say("merged", new TreeMap<>(theirs.<String, String>getMap("map").readAllMap()));
    }

    private static void mapsThatForget() throws Exception {
        RMapCache<String, String> cache = ours.getMapCache("cache");
        CountDownLatch told = new CountDownLatch(1);
        int listener = theirs.<String, String>getMapCache("cache")
                .addListener((EntryCreatedListener<String, String>) event -> told.countDown());
        Story.say("put", cache.put("short", "1", 1500, TimeUnit.MILLISECONDS), cache.put("long", "2"));
        cache.fastPut("idle", "3", 60, TimeUnit.SECONDS, 1500, TimeUnit.MILLISECONDS);
        Story.say("told", told.await(20, TimeUnit.SECONDS));
        theirs.getMapCache("cache").removeListener(listener);
        Story.say("there", cache.get("short"), cache.size(), (cache.remainTimeToLive("short") > 0));
        Story.until("an entry is forgotten", () -> cache.get("short") == null);
        Thread.sleep(2000);
        Story.say("left", new TreeMap<>(cache.readAllMap()));
        RMapCache<String, String> small = ours.getMapCache("small");
        small.trySetMaxSize(3);
        for (int n = 0; n < 10; n++) {
            small.put("k" + n, "v");
        }
        Story.say("small", new TreeSet<>(small.readAllKeySet()));
        small.destroy();
        cache.destroy();
    }

    private static void delayed() throws Exception {
        RBlockingQueue<String> queue = ours.getBlockingQueue("queue");
        RDelayedQueue<String> later = ours.getDelayedQueue(queue);
        later.offer("third", 1800, TimeUnit.MILLISECONDS);
        later.offer("first", 600, TimeUnit.MILLISECONDS);
        later.offer("second", 1200, TimeUnit.MILLISECONDS);
        later.offer("never", 1, TimeUnit.HOURS);
        Story.say("waiting", later.size(), queue.size(), later.remove("never"));
        List<String> taken = new ArrayList<>();
        RBlockingQueue<String> same = theirs.getBlockingQueue("queue");
        long begun = System.nanoTime();
        while (taken.size() < 3) {
            taken.add(same.poll(20, TimeUnit.SECONDS));
        }
        Story.say("taken", taken, (System.nanoTime() - begun >= 1_000_000_000));
        later.destroy();
        Story.sideBySide(6, number -> {
            for (int n = 0; n < 50; n++) {
                if (number < 3) {
                    either(number).<String>getBlockingQueue("jobs").put(number + ":" + n);
                } else {
                    String job = either(number).<String>getBlockingQueue("jobs").take();
                    either(number).<String>getSet("done").add(job);
                }
            }
            return null;
        });
        Story.say("jobs done", ours.getSet("done").size(), ours.getBlockingQueue("jobs").size());
    }

    private static void semaphores() throws Exception {
        RSemaphore semaphore = ours.getSemaphore("permits");
        Story.say("permits", semaphore.trySetPermits(3), theirs.getSemaphore("permits").trySetPermits(9));
        AtomicInteger inside = new AtomicInteger();
        List<Boolean> few = Story.sideBySide(8, number -> {
            boolean always = true;
            for (int n = 0; n < 15; n++) {
                RSemaphore mine = either(number).getSemaphore("permits");
                mine.acquire();
                always &= inside.incrementAndGet() <= 3;
                Thread.sleep(2);
                inside.decrementAndGet();
                mine.release();
            }
            return always;
        });
        Story.say("at most three", new TreeSet<>(few), semaphore.availablePermits());
        RPermitExpirableSemaphore leased = theirs.getPermitExpirableSemaphore("leased");
        leased.trySetPermits(1);
        String permit = leased.acquire(1000, TimeUnit.MILLISECONDS);
        Story.say("taken", leased.tryAcquire() == null);
        String next = leased.tryAcquire(20, 60, TimeUnit.SECONDS);
        Story.say("expired", (next != null), leased.tryRelease(permit), leased.tryRelease(next));
    }

    private static void latches() throws Exception {
        RCountDownLatch latch = ours.getCountDownLatch("latch");
        Story.say("latch", latch.trySetCount(4), latch.trySetCount(9), latch.getCount());
        List<Boolean> passed = Story.sideBySide(6, number -> {
            RCountDownLatch mine = either(number).getCountDownLatch("latch");
            if (number < 2) {
                return mine.await(30, TimeUnit.SECONDS);
            }
            Thread.sleep(100);
            mine.countDown();
            return true;
        });
        Story.say("passed", passed, latch.getCount());
    }

    private static void topics() throws Exception {
        List<String> heard = Collections.synchronizedList(new ArrayList<>());
        RTopic topic = theirs.getTopic("news");
        topic.addListener(String.class, (channel, message) -> heard.add(channel + "=" + message));
        theirs.getPatternTopic("n*s").addListener(String.class,
                (pattern, channel, message) -> heard.add(pattern + "/" + channel + "=" + message));
        ours.getTopic("news").addListener(String.class, (channel, message) -> heard.add("ours " + message));
        Story.say("receivers", ours.getTopic("news").publish("one"), topic.countSubscribers());
        Story.until("three messages", () -> heard.size() == 3);
        Story.say("heard", new TreeSet<>(heard));
        topic.removeAllListeners();
        Story.say("later", ours.getTopic("news").publish("two"));
    }

    private static void batches() {
        BatchOptions atomic = BatchOptions.defaults();
        atomic.executionMode(BatchOptions.ExecutionMode.IN_MEMORY_ATOMIC);
        RBatch batch = ours.createBatch(atomic);
        batch.getAtomicLong("b:1").incrementAndGetAsync();
        batch.getMap("b:2").fastPutAsync("a", "1");
        batch.getAtomicLong("b:1").addAndGetAsync(5);
        BatchResult<?> result = batch.execute();
        Story.say("batch", result.getResponses());
        RBatch plain = theirs.createBatch();
        for (int n = 0; n < 1000; n++) {
            plain.getAtomicLong("b:1").incrementAndGetAsync();
        }
        List<?> replies = plain.execute().getResponses();
        Story.say("plain batch", replies.size(), replies.get(999));
    }

    private static void transactions() {
        RTransaction change = ours.createTransaction(TransactionOptions.defaults());
        RMap<String, String> inside = change.getMap("x:map");
        inside.put("a", "1");
        change.<String>getBucket("x:value").set("2");
        Story.say("before", theirs.getMap("x:map").size(), theirs.getBucket("x:value").get());
        change.commit();
        Story.say("after", theirs.getMap("x:map").get("a"), theirs.getBucket("x:value").get());
        RTransaction dropped = ours.createTransaction(TransactionOptions.defaults());
        dropped.<String>getBucket("x:value").set("3");
        dropped.rollback();
        Story.say("rolled back", theirs.getBucket("x:value").get());
    }
}
