package claret.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import claret.Batch;
import claret.Claret;
import claret.Options;
import claret.RunOptions;
import claret.client.FaultyDriver.Fault;
import claret.error.CancelledException;
import claret.error.ClosedException;
import claret.error.OrderException;
import claret.error.UnknownOutcomeException;
import claret.lock.Lock;
import claret.lock.LockOptions;
import claret.lock.NotAcquiredException;
import claret.lock.RetainedOptions;
import claret.lock.Section;
import claret.net.JedisDriver;
import claret.net.LettuceDriver;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.function.Consumer;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;

/** Threads that give up, and what locks and sections answer when a reply is lost. */
@EnabledIfEnvironmentVariable(named = "CLARET_BIN", matches = ".*")
final class CancelTest {
    private static final LockOptions ALONE = LockOptions.defaults();

    // Calls that wait until their thread is interrupted.
    private static final Map<String, Consumer<Claret>> WAITS = new LinkedHashMap<>();

    static {
        WAITS.put("lock", db -> db.lock("{l}", ALONE));
        WAITS.put("near", db -> db.lock("near", ALONE.near()));
        WAITS.put("next", db -> db.lock("{l}", ALONE.next()));
        WAITS.put("campaign", db -> db.election("{l}").campaign("here", ALONE));
        WAITS.put("section", db -> db.section("{l}", ALONE).incr("{l}:n"));
        WAITS.put("stay", db -> db.retained("{l}", RetainedOptions.defaults()).enter());
        WAITS.put("barrier", db -> db.barrier("b", 2).await());
        WAITS.put("observe", db -> db.election("e").observe(null).hasNext());
        WAITS.put("run", db -> db.run(tx -> tx.askForUpdate("GET", "held"), minute()));
    }

    private static RunOptions minute() {
        return RunOptions.strict().deadline(Duration.ofMinutes(1));
    }

    @Nested
    final class OverJedis extends Stories {
        OverJedis() {
            super(new FaultyDriver(new JedisDriver()));
        }
    }

    @Nested
    final class OverLettuce extends Stories {
        OverLettuce() {
            super(new FaultyDriver(new LettuceDriver()));
        }
    }

    abstract static class Stories extends OnServer {
        private final FaultyDriver faults;

        Stories(FaultyDriver faults) {
            super(faults);
            this.faults = faults;
        }

        /** Interrupts all waits at once, and expects each to end within a second. */
        private Map<String, CancelledException> giveUpAll(Claret db) throws InterruptedException {
            Map<String, Waiting> all = new LinkedHashMap<>();
            WAITS.forEach((name, wait) -> all.put(name, new Waiting(() -> wait.accept(db))));
            Thread.sleep(400);
            all.forEach((name, one) -> assertFalse(one.outcome.isDone(), name));
            long sinceNs = System.nanoTime();
            all.values().forEach(one -> one.thread.interrupt());
            Map<String, CancelledException> errors = new LinkedHashMap<>();
            all.forEach(
                    (name, one) -> {
                        RuntimeException error = one.outcome.join();
                        long lateMs = (System.nanoTime() - sinceNs) / 1_000_000;
                        assertTrue(lateMs < 1000, name + " took " + lateMs + " ms");
                        assertTrue(error instanceof CancelledException, name + ": " + error);
                        errors.put(name, (CancelledException) error);
                    });
            return errors;
        }

        /** Keeps locks and a key from all waits, until the latch is counted down. */
        private CompletableFuture<Void> hold(CountDownLatch end) throws InterruptedException {
            CountDownLatch held = new CountDownLatch(1);
            RunOptions options = minute().idleTimeout(Duration.ZERO).transactionTimeout(Duration.ZERO);
            CompletableFuture<Void> done =
                    CompletableFuture.runAsync(
                            () -> {
                                try (Lock lock = db.lock("{l}", ALONE);
                                        Lock near = db.lock("near", ALONE.near())) {
                                    db.run(
                                            tx -> {
                                                tx.askForUpdate("GET", "held");
                                                held.countDown();
                                                end.await();
                                                return null;
                                            },
                                            options);
                                } catch (InterruptedException never) {
                                    throw new IllegalStateException(never);
                                }
                            });
            held.await();
            return done;
        }

        @Test
        void aThreadThatGivesUpStopsWaitingAndLeavesNothing() throws InterruptedException {
            CountDownLatch end = new CountDownLatch(1);
            CompletableFuture<Void> holding = hold(end);
            Map<String, CancelledException> errors = giveUpAll(db);
            assertTrue(errors.get("section").mayHaveHappened());
            Thread.sleep(700);
            assertEquals(List.of(), db.ask("LOCK.WAITERS", "{l}"));
            assertEquals(List.of(), db.ask("BARRIER.WAITING", "b"));
            end.countDown();
            holding.join();
            assertFalse(db.exists("{l}"));
            assertFalse(db.exists("{l}:n"));
            assertThrows(NotAcquiredException.class, () -> db.barrier("b", 2).await(Duration.ofMillis(100)));
            db.lock("near", ALONE.near().timeout(Duration.ofSeconds(5))).close();
        }

        @Test
        void aThreadThatGivesUpDoesNotWaitForASilentServer() throws InterruptedException {
            for (String start : List.of("LOCK.ACQUIRE", "ELECTION.", "BARRIER.", "EXEC", "TXN FORUPDATE")) {
                for (int i = 0; i < 10; i++) {
                    faults.fail(start, Fault.LATE);
                }
            }
            for (int i = 0; i < 100; i++) {
                faults.fail("CLIENT UNBLOCK", Fault.LATE);
            }
            Map<String, CancelledException> errors = giveUpAll(db);
            assertTrue(errors.get("barrier").mayHaveHappened());
        }

        @Test
        void anArrivalThatIsGivenUpCountsForAllOrNone() throws InterruptedException {
            int gone = 0;
            for (int i = 0; i < 40; i++) {
                Waiting first = new Waiting(() -> db.barrier("b", 2).await());
                Thread.sleep(8);
                CompletableFuture<Void> killer = first.interruptAfter(i * 60_000L);
                Thread.sleep(1);
                Duration brief = Duration.ofMillis(300);
                Waiting second = new Waiting(() -> db.barrier("b", 2).await(brief));
                RuntimeException alone = first.outcome.join();
                RuntimeException other = second.outcome.join();
                killer.join();
                boolean unknown =
                        alone instanceof CancelledException cancelled && cancelled.mayHaveHappened();
                gone += alone == null ? 0 : 1;
                if (!unknown) {
                    assertEquals(alone == null, other == null, alone + ", and the other " + other);
                }
            }
            assertTrue(gone > 0);
        }

        @Test
        void aReleaseWhoseReplyIsLostTellsWhetherTheLockWasHeld() {
            for (LockOptions options : List.of(ALONE, ALONE.near(), ALONE.next())) {
                Lock lock = db.lock("l", options);
                faults.fail("LOCK.RELEASE", Fault.UNANSWERED);
                assertTrue(lock.release());
            }
            Lock lost = db.lock("l", ALONE);
            db.del("l");
            faults.fail("LOCK.RELEASE", Fault.UNANSWERED);
            assertFalse(lost.release());
        }

        @Test
        void aSectionIsCarriedOutOnceAlthoughItsReplyIsLost() {
            Section section = db.section("{l}", ALONE);
            assertTrue(section.token().isEmpty());
            faults.fail("EXEC", Fault.UNANSWERED);
            assertEquals(1, section.incr("{l}:n"));
            long first = section.token().getAsLong();
            assertEquals(2, section.incr("{l}:n"));
            assertTrue(section.token().getAsLong() > first);
            try (Lock other = db.lock("{l}", ALONE)) {
                faults.fail("EXEC", Fault.UNANSWERED);
                Section brief = db.section("{l}", ALONE.timeout(Duration.ofMillis(200)));
                assertThrows(UnknownOutcomeException.class, () -> brief.incr("{l}:n"));
                assertTrue(other.isHeld());
            }
            assertThrows(OrderException.class, () -> section.ask("SELECT", "1"));
        }

        @Test
        void locksWithNearAndNextAreGuardedByFences() {
            for (LockOptions options : List.of(ALONE.near(), ALONE.next())) {
                try (Lock lock = db.lock("l", options)) {
                    db.fenced(lock).incr("n");
                    assertThrows(
                            OrderException.class,
                            () ->
                                    db.run(
                                            tx -> {
                                                tx.incr("n");
                                                tx.require(lock);
                                                return null;
                                            }));
                }
                assertThrows(IllegalArgumentException.class, options::shared);
            }
            assertEquals("2", db.get("n"));
        }

        @Test
        void aBatchThatIsGivenUpMayHaveHappened() throws InterruptedException {
            faults.fail("EXEC", Fault.LATE);
            Waiting batch =
                    new Waiting(
                            () -> {
                                Batch commands = db.batch();
                                commands.incr("n");
                                commands.execute();
                            });
            long endNs = System.nanoTime() + 10_000_000_000L;
            while (faults.packets.stream().noneMatch(packet -> packet.contains("EXEC"))) {
                assertTrue(System.nanoTime() < endNs, "it was not sent");
                Thread.sleep(5);
            }
            Thread.sleep(200);
            batch.thread.interrupt();
            assertTrue(((CancelledException) batch.outcome.join()).mayHaveHappened());
        }

        @Test
        void aTransactionOfAClosedClientWritesNothing() {
            try (Claret other = Claret.connect(Options.builder().address(server.address()).build())) {
                assertThrows(
                        ClosedException.class,
                        () ->
                                other.run(
                                        tx -> {
                                            tx.get("n");
                                            other.close();
                                            tx.set("n", "1");
                                            return tx.get("n");
                                        }));
                assertFalse(db.exists("n"));
            }
        }

        @Test
        void whatIsUnderWayEndsWhenTheClientIsClosed() throws InterruptedException {
            try (Claret other = Claret.connect(Options.builder().address(server.address()).build())) {
                try (Lock lock = db.lock("{l}", ALONE)) {
                    Waiting waiting = new Waiting(() -> other.lock("{l}", ALONE));
                    Thread.sleep(200);
                    other.close();
                    assertTrue(waiting.outcome.join() instanceof ClosedException);
                    assertTrue(lock.isHeld());
                }
            }
        }
    }
}
