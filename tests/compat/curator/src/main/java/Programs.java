import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.retry.RetryOneTime;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.data.Stat;

/** Curator's recipes with contention. A program ends with an exception unless what it was promised holds. */
public final class Programs {
    private static final int WAIT_S = 20;
    private static String hosts;

    private Programs() {}

    public static void main(String[] arguments) throws Exception {
        hosts = arguments[0];
        mutex();
        readWriteLock();
        leaderLatch();
        persistentNode();
        cache();
        transactionAndKinds();
    }

    private interface Work {
        void run(CuratorFramework client) throws Exception;
    }

    private static CuratorFramework client() throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(hosts, 10_000, 10_000, new RetryOneTime(100));
        client.start();
        check(client.blockUntilConnected(WAIT_S, TimeUnit.SECONDS), "connected");
        return client;
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    private static void until(String what, Callable<Boolean> holds) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT_S);
        while (!holds.call()) {
            check(System.nanoTime() < deadline, what);
            Thread.sleep(20);
        }
    }

    /** Does something with several clients at once. */
    private static void atOnce(int count, Work work) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(count);
        List<Future<?>> running = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            running.add(threads.submit(() -> {
                try (CuratorFramework client = client()) {
                    work.run(client);
                }
                return null;
            }));
        }
        for (Future<?> one : running) {
            one.get(60, TimeUnit.SECONDS);
        }
        threads.shutdown();
    }

    private static void mutex() throws Exception {
        AtomicInteger inside = new AtomicInteger();
        AtomicInteger times = new AtomicInteger();
        atOnce(4, client -> {
            InterProcessMutex mutex = new InterProcessMutex(client, "/curator/mutex");
            for (int i = 0; i < 10; i++) {
                check(mutex.acquire(WAIT_S, TimeUnit.SECONDS), "the mutex is given");
                check(inside.incrementAndGet() == 1, "one is inside");
                times.incrementAndGet();
                inside.decrementAndGet();
                mutex.release();
            }
        });
        check(times.get() == 40, "everybody was inside");
        try (CuratorFramework client = client()) {
            // The parent is a container: it was there, has no children, and has no owner that clients see.
            Stat stat = client.checkExists().forPath("/curator/mutex");
            check(stat == null || stat.getNumChildren() == 0 && stat.getEphemeralOwner() == 0, "a container");
        }
    }

    private static void readWriteLock() throws Exception {
        AtomicInteger readers = new AtomicInteger();
        AtomicInteger writers = new AtomicInteger();
        AtomicInteger turn = new AtomicInteger();
        atOnce(4, client -> {
            InterProcessReadWriteLock lock = new InterProcessReadWriteLock(client, "/curator/readwrite");
            boolean writes = turn.getAndIncrement() % 2 == 0;
            for (int i = 0; i < 6; i++) {
                InterProcessMutex side = writes ? lock.writeLock() : lock.readLock();
                check(side.acquire(WAIT_S, TimeUnit.SECONDS), "the lock is given");
                if (writes) {
                    check(writers.incrementAndGet() == 1 && readers.get() == 0, "a writer is alone");
                    writers.decrementAndGet();
                } else {
                    readers.incrementAndGet();
                    check(writers.get() == 0, "readers are among themselves");
                    readers.decrementAndGet();
                }
                side.release();
            }
        });
    }

    private static void leaderLatch() throws Exception {
        List<CuratorFramework> clients = new ArrayList<>();
        List<LeaderLatch> latches = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            clients.add(client());
            latches.add(new LeaderLatch(clients.get(i), "/curator/latch", "c" + i));
            latches.get(i).start();
        }
        for (int left = 3; left > 0; left--) {
            until("somebody leads", () -> latches.stream().anyMatch(LeaderLatch::hasLeadership));
            check(latches.stream().filter(LeaderLatch::hasLeadership).count() == 1, "one leads");
            LeaderLatch leader = latches.stream().filter(LeaderLatch::hasLeadership).findFirst().get();
            check(latches.get(0).getLeader().getId().equals(leader.getId()), "all know who");
            latches.remove(leader);
            leader.close();
        }
        clients.forEach(CuratorFramework::close);
    }

    private static void persistentNode() throws Exception {
        try (CuratorFramework ann = client(); CuratorFramework ben = client()) {
            byte[] data = "here".getBytes(StandardCharsets.UTF_8);
            PersistentNode node = new PersistentNode(ann, CreateMode.EPHEMERAL, false, "/curator/persistent", data);
            node.start();
            check(node.waitForInitialCreate(WAIT_S, TimeUnit.SECONDS), "it is created");
            long owner = ann.getZookeeperClient().getZooKeeper().getSessionId();
            check(ben.checkExists().forPath("/curator/persistent").getEphemeralOwner() == owner, "it is ann's");
            ben.delete().forPath("/curator/persistent");
            until("it is there again", () -> ben.checkExists().forPath("/curator/persistent") != null);
            node.setData("there".getBytes(StandardCharsets.UTF_8));
            until("its data are set", () -> "there".equals(text(ben, "/curator/persistent")));
            node.close();
            until("it is gone", () -> ben.checkExists().forPath("/curator/persistent") == null);
        }
    }

    private static String text(CuratorFramework client, String path) throws Exception {
        return new String(client.getData().forPath(path), StandardCharsets.UTF_8);
    }

    private static void cache() throws Exception {
        try (CuratorFramework ann = client(); CuratorFramework ben = client()) {
            ann.create().creatingParentContainersIfNeeded().forPath("/curator/cache/a", new byte[] {1});
            Set<String> told = new ConcurrentSkipListSet<>();
            CountDownLatch begun = new CountDownLatch(1);
            CuratorCache cache = CuratorCache.build(ben, "/curator/cache");
            cache.listenable().addListener((type, before, after) -> {
                told.add(type + " " + (after != null ? after : before).getPath());
            });
            cache.listenable().addListener(
                org.apache.curator.framework.recipes.cache.CuratorCacheListener.builder()
                    .forInitialized(begun::countDown).build());
            cache.start();
            check(begun.await(WAIT_S, TimeUnit.SECONDS), "the cache is filled");
            check(cache.get("/curator/cache/a").isPresent(), "it has what was there");
            ann.create().forPath("/curator/cache/a/b", new byte[] {2});
            ann.setData().forPath("/curator/cache/a", new byte[] {3});
            until("it follows", () -> cache.get("/curator/cache/a").map(d -> d.getData()[0] == 3).orElse(false));
            ann.delete().deletingChildrenIfNeeded().forPath("/curator/cache/a");
            until("it forgets", () -> cache.get("/curator/cache/a").isEmpty() && cache.get("/curator/cache/a/b").isEmpty());
            Set<String> expected = new TreeSet<>();
            Collections.addAll(expected, "NODE_CREATED /curator/cache", "NODE_CREATED /curator/cache/a",
                "NODE_CREATED /curator/cache/a/b", "NODE_CHANGED /curator/cache/a",
                "NODE_DELETED /curator/cache/a", "NODE_DELETED /curator/cache/a/b");
            until("all is told: " + told, () -> told.containsAll(expected));
            cache.close();
        }
    }

    private static void transactionAndKinds() throws Exception {
        try (CuratorFramework client = client()) {
            client.create().creatingParentsIfNeeded().forPath("/curator/kinds/x");
            client.create().withTtl(3_600_000).withMode(CreateMode.PERSISTENT_WITH_TTL).forPath("/curator/kinds/ttl");
            client.create().withMode(CreateMode.CONTAINER).forPath("/curator/kinds/container");
            String path = client.create().withMode(CreateMode.PERSISTENT_SEQUENTIAL).forPath("/curator/kinds/s-");
            check(path.matches("/curator/kinds/s-\\d{10}"), path);
            client.transaction().forOperations(
                client.transactionOp().create().forPath("/curator/kinds/both"),
                client.transactionOp().setData().forPath("/curator/kinds/x", new byte[] {1}),
                client.transactionOp().delete().forPath("/curator/kinds/ttl"));
            check(client.checkExists().forPath("/curator/kinds/ttl") == null, "it is deleted");
            try {
                client.transaction().forOperations(
                    client.transactionOp().delete().forPath("/curator/kinds/x"),
                    client.transactionOp().check().withVersion(7).forPath("/curator/kinds/both"));
                throw new AssertionError("a version that is another one");
            } catch (KeeperException.BadVersionException expected) {
                check(client.checkExists().forPath("/curator/kinds/x") != null, "nothing was done");
            }
        }
    }
}
