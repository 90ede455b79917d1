package claret.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import claret.Batch;
import claret.Deferred;
import claret.Dispatch;
import claret.RunOptions;
import claret.error.CancelledException;
import claret.error.ClosedException;
import claret.error.OrderException;
import claret.error.RepeatedException;
import claret.error.UndoneException;
import claret.error.WriteRefusedException;
import claret.lock.Election;
import claret.lock.Lock;
import claret.lock.LockLostException;
import claret.lock.LockOptions;
import claret.lock.NotAcquiredException;
import claret.lock.RetainedLock;
import claret.lock.RetainedOptions;
import claret.net.Driver;
import claret.net.JedisDriver;
import claret.net.LettuceDriver;
import claret.type.Type;
import java.io.IOException;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;

/** The client on a real server, over each library. */
@EnabledIfEnvironmentVariable(named = "CLARET_BIN", matches = ".*")
final class ClaretTest {
    @Nested
    final class OverJedis extends Stories {
        OverJedis() {
            super(new JedisDriver());
        }
    }

    @Nested
    final class OverLettuce extends Stories {
        OverLettuce() {
            super(new LettuceDriver());
        }
    }

    abstract static class Stories extends OnServer {
        Stories(Driver driver) {
            super(driver);
        }

        @Test
        void readsAnswerAtOnceAndWritesAfterTheCommit() {
            db.set("n", "7");
            Deferred<Long> sum =
                    db.run(
                            tx -> {
                                Deferred<Long> later = tx.incrBy("n", Long.parseLong(tx.get("n")));
                                assertThrows(OrderException.class, later::value);
                                return later;
                            });
            assertEquals(14, sum.value());
            assertEquals("14", db.get("n"));
        }

        @Test
        void aDeferredReplyIsNotAValue() {
            assertThrows(
                    OrderException.class,
                    () ->
                            db.run(
                                    tx -> {
                                        Deferred<Long> later = tx.incr("n");
                                        assertThrows(OrderException.class, later::hashCode);
                                        assertThrows(OrderException.class, () -> later.equals(1L));
                                        return tx.set("ticket:" + later, "ann");
                                    }));
            assertNull(db.get("n"));
        }

        @Test
        void aWriteIsNotAskedFor() {
            assertThrows(OrderException.class, () -> db.run(tx -> tx.ask("INCR", "n")));
            assertNull(db.get("n"));
        }

        @Test
        void aStrictTransactionIsUndone() {
            db.rpush("list", "one");
            assertThrows(
                    UndoneException.class,
                    () ->
                            db.run(
                                    tx -> {
                                        tx.set("x", "1");
                                        return tx.incr("list");
                                    }));
            assertNull(db.get("x"));
        }

        @Test
        void aLenientTransactionKeepsTheOtherWrites() {
            db.rpush("list", "one");
            WriteRefusedException refused =
                    assertThrows(
                            WriteRefusedException.class,
                            () ->
                                    db.run(
                                            tx -> {
                                                tx.set("x", "1");
                                                return tx.incr("list");
                                            },
                                            RunOptions.lenient()));
            assertEquals("WRONGTYPE", refused.errors().get(0).code());
            assertEquals("1", db.get("x"));
        }

        @Test
        void aCheckedExceptionOfTheFunctionRollsBack() {
            Map<String, Deferred<Long>> kept = new HashMap<>();
            assertThrows(
                    IOException.class,
                    () ->
                            db.run(
                                    tx -> {
                                        kept.put("d", tx.incr("n"));
                                        throw new IOException("no more");
                                    }));
            assertThrows(ClosedException.class, () -> kept.get("d").value());
            assertNull(db.get("n"));
        }

        @Test
        void aTextTakesEffectOnceAlsoIfValuesWereRead() {
            for (int i = 0; i < 3; i++) {
                try {
                    db.run(
                            tx -> tx.set("n", Long.toString(1 + (tx.exists("n") ? Long.parseLong(tx.get("n")) : 0))),
                            RunOptions.strict().once("order-8f3a"));
                    assertEquals(0, i);
                } catch (RepeatedException repeated) {
                    assertTrue(i > 0);
                }
            }
            assertEquals("1", db.get("n"));
        }

        @Test
        void noUpdateOfManyThreadsIsLost() {
            List<CompletableFuture<Void>> all =
                    IntStream.range(0, 8)
                            .mapToObj(i -> CompletableFuture.runAsync(() -> addFive(i)))
                            .toList();
            all.forEach(CompletableFuture::join);
            assertEquals("40", db.get("n"));
        }

        private void addFive(int thread) {
            RunOptions options = thread % 2 == 0 ? RunOptions.strict().update() : RunOptions.strict();
            for (int i = 0; i < 5; i++) {
                db.run(
                        tx -> {
                            String old = tx.get("n");
                            return tx.set("n", Long.toString(1 + (old == null ? 0 : Long.parseLong(old))));
                        },
                        options);
            }
        }

        @Test
        void aSnapshotReadsRepliesOfAllKinds() {
            db.hset("h", "a", "1");
            db.sadd("s", "x", "y");
            db.zadd("z", 1.5, "m");
            db.snapshot(
                    reads -> {
                        assertEquals(Map.of("a", "1"), reads.hgetAll("h"));
                        assertEquals(Map.of(), reads.hgetAll("none"));
                        assertEquals(Set.of("x", "y"), reads.smembers("s"));
                        assertEquals(1.5, reads.zscore("z", "m"));
                        assertNull(reads.zscore("z", "none"));
                        assertEquals(List.of("m"), reads.zrange("z", 0, -1));
                        return null;
                    });
        }

        @Test
        void aGuardedBatchTakesEffectOrNot() {
            db.set("x", "5");
            Batch batch = db.batch();
            Deferred<Long> sum = batch.guard("x", "5").guard("hold", null).incr("x");
            assertTrue(batch.execute().isPresent());
            assertEquals(6, sum.value());
            Batch other = db.batch();
            other.guard("x", "5").incr("x");
            assertFalse(other.execute().isPresent());
            assertEquals("6", db.get("x"));
        }

        @Test
        void dispatchedCommandsKeepTheirOrder() {
            CompletableFuture<Object> first;
            CompletableFuture<Object> refused;
            try (Dispatch dispatch = db.dispatch()) {
                first = dispatch.send("RPUSH", "l", "one");
                refused = dispatch.send("INCR", "l");
                for (int i = 0; i < 1000; i++) {
                    dispatch.send("INCR", "n");
                }
                assertThrows(OrderException.class, () -> dispatch.send("MULTI"));
            }
            assertEquals(1L, first.join());
            assertThrows(CompletionException.class, refused::join);
            assertEquals("1000", db.get("n"));
        }

        @Test
        void anInterruptedThreadGivesUp() throws InterruptedException {
            try (Lock lock = db.lock("l", LockOptions.defaults())) {
                CompletableFuture<Throwable> outcome = new CompletableFuture<>();
                Thread waiting =
                        new Thread(
                                () -> {
                                    try {
                                        db.lock("l", LockOptions.defaults()).close();
                                    } catch (CancelledException error) {
                                        outcome.complete(error);
                                    }
                                });
                waiting.start();
                Thread.sleep(200);
                waiting.interrupt();
                assertTrue(outcome.join() instanceof CancelledException);
                assertTrue(lock.isHeld());
            }
            db.lock("l", LockOptions.defaults().timeout(Duration.ofSeconds(1))).close();
        }

        @Test
        void aLateHolderIsFenced() throws InterruptedException {
            Lock late = db.lock("l", LockOptions.defaults().lease(Duration.ofMillis(400)));
            db.fenced(late).set("x", "early");
            late.stopRenewing();
            try (Lock next = db.lock("l", LockOptions.defaults())) {
                assertTrue(next.token() > late.token());
                db.fenced(next).set("x", "next");
                assertThrows(LockLostException.class, () -> db.fenced(late).set("x", "late"));
                assertThrows(LockLostException.class, late::close);
            }
            assertEquals("next", db.get("x"));
        }

        @Test
        void aTransactionRequiresALock() {
            Lock lock = db.lock("l", LockOptions.defaults());
            db.run(
                    tx -> {
                        tx.require(lock);
                        return tx.set("x", "held");
                    });
            db.del("l");
            assertThrows(
                    LockLostException.class,
                    () ->
                            db.run(
                                    tx -> {
                                        tx.require(lock);
                                        return tx.set("x", "lost");
                                    }));
            assertEquals("held", db.get("x"));
            lock.release();
        }

        @Test
        void aRetainedLockIsGivenToOthersThatWait() {
            try (RetainedLock kept = db.retained("l", RetainedOptions.defaults())) {
                long first;
                try (RetainedLock.Stay stay = kept.enter()) {
                    first = stay.token();
                }
                try (RetainedLock.Stay stay = kept.enter()) {
                    assertEquals(first + 1, stay.token());
                    LockOptions brief = LockOptions.defaults().timeout(Duration.ofMillis(100));
                    assertThrows(NotAcquiredException.class, () -> db.lock("l", brief));
                }
                try (Lock other = db.lock("l", LockOptions.defaults().timeout(Duration.ofSeconds(2)))) {
                    assertTrue(other.token() > first);
                }
                kept.enter().close();
            }
        }

        @Test
        void aLeaderIsSeenAndResigns() {
            Election election = db.election("e");
            assertTrue(election.leader().isEmpty());
            try (Election.Leadership leading = election.campaign("here", LockOptions.defaults())) {
                leading.proclaim("there");
                assertEquals("there", election.leader().orElseThrow().value());
            }
            assertTrue(election.leader().isEmpty());
        }

        @Test
        void aBarrierOpensWhenAllAreThere() {
            assertThrows(NotAcquiredException.class, () -> db.barrier("b", 2).await(Duration.ofMillis(50)));
            CompletableFuture<Long> other = CompletableFuture.supplyAsync(() -> db.barrier("b", 2).await());
            assertEquals(db.barrier("b", 2).await(Duration.ofSeconds(5)), other.join());
        }

        @Test
        void aTypeHasItsOperations() {
            String text = "type visits\npart n counter\nop add by:int\n  counter.add n $by\nop count\n  return counter.get n\n";
            Type visits = Type.parse(text);
            assertEquals(List.of("by"), visits.parameters("add"));
            assertEquals(1, visits.define(db));
            visits.on(db, "v").call("add", 2);
            long seen =
                    db.run(
                            tx -> {
                                visits.deferred(tx, "v").call("add", 3);
                                return (Long) visits.on(tx, "v").call("count");
                            });
            assertEquals(5, seen);
            assertThrows(IllegalArgumentException.class, () -> visits.on(db, "v").call("add"));
        }

        @Test
        void aBatchTakesEffectOnceAlthoughTheServerDies() {
            db.set("n", "1");
            server.kill();
            CompletableFuture<Boolean> done =
                    CompletableFuture.supplyAsync(
                            () -> {
                                Batch batch = db.batch();
                                batch.incr("n");
                                return batch.execute().isPresent();
                            });
            server.restart();
            assertTrue(done.join());
            assertEquals("2", db.get("n"));
        }
    }
}
