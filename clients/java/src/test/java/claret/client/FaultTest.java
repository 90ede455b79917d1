package claret.client;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import claret.Batch;
import claret.Deferred;
import claret.Dispatch;
import claret.RunOptions;
import claret.client.FaultyDriver.Fault;
import claret.error.CancelledException;
import claret.error.OrderException;
import claret.error.RepeatedException;
import claret.error.UnknownOutcomeException;
import claret.lock.Barrier;
import claret.lock.Lock;
import claret.lock.LockOptions;
import claret.lock.RetainedOptions;
import claret.net.JedisDriver;
import claret.net.LettuceDriver;
import claret.type.Type;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;

/** Refusals, broken connections and interruptions at chosen moments, over each library. */
@EnabledIfEnvironmentVariable(named = "CLARET_BIN", matches = ".*")
final class FaultTest {
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

        @Test
        void wrongOptionsAreRefusedBeforeAnythingIsSent() {
            for (String text : List.of("", "a b", "a\n", "a\u00a0b", "x".repeat(60), "\u00e9".repeat(30))) {
                assertThrows(IllegalArgumentException.class, () -> RunOptions.strict().once(text));
            }
            Duration negative = Duration.ofMillis(-1);
            RunOptions options = RunOptions.strict();
            assertThrows(IllegalArgumentException.class, () -> options.deadline(negative));
            assertThrows(IllegalArgumentException.class, () -> options.idleTimeout(negative));
            assertThrows(IllegalArgumentException.class, () -> options.transactionTimeout(negative));
            assertThrows(IllegalArgumentException.class, () -> LockOptions.defaults().timeout(negative));
            assertThrows(IllegalArgumentException.class, () -> RetainedOptions.defaults().timeout(negative));
            assertThrows(IllegalArgumentException.class, () -> db.barrier("b", 2).await(negative));
            assertEquals(List.of(), faults.packets);
            db.run(tx -> tx.set("a", "1"), options.once("x".repeat(59)));
            assertEquals("1", db.get("a"));
        }

        @Test
        void anOpeningIsSentAloneUntilOneWasAccepted() {
            for (int i = 0; i < 2; i++) {
                db.run(tx -> tx.incr("n"));
                Batch batch = db.batch();
                batch.incr("n");
                batch.execute();
            }
            List<String> counts = new ArrayList<>();
            for (String packet : faults.packets) {
                counts.add(Integer.toString(packet.split("; ").length));
            }
            assertEquals("2 2 2 2 4 4", String.join(" ", counts));
        }

        @Test
        void aRefusedOpeningHasNoEffectAndIsTriedAgain() {
            faults.fail("TXN BEGIN", Fault.REFUSED);
            db.run(tx -> tx.incr("n"));
            faults.fail("MULTI", Fault.REFUSED);
            Batch batch = db.batch();
            Deferred<Long> sum = batch.incr("n");
            assertTrue(batch.execute().isPresent());
            assertEquals(2, sum.value());
            assertEquals("2", db.get("n"));
        }

        @Test
        void commandsBehindARefusedOpeningAreNotSentAgain() {
            db.run(tx -> tx.incr("n"));
            db.batch().execute();
            faults.fail("TXN BEGIN", Fault.REFUSED);
            assertThrows(UnknownOutcomeException.class, () -> db.run(tx -> tx.incr("n")));
            assertEquals("2", db.get("n"));
            db.batch().execute();
            faults.fail("MULTI", Fault.REFUSED);
            Batch batch = db.batch();
            batch.incr("n");
            assertThrows(UnknownOutcomeException.class, batch::execute);
            assertEquals("3", db.get("n"));
        }

        @Test
        void aReadBehindARefusedOpeningIsTriedAgain() {
            db.run(tx -> tx.get("n"));
            faults.fail("TXN BEGIN", Fault.REFUSED);
            assertNull(db.run(tx -> tx.get("n")));
        }

        @Test
        void commandsAboutTheConnectionAreRefused() {
            List<String[]> commands = new ArrayList<>();
            String names =
                    "AUTH CLIENT DISCARD EXEC HELLO MONITOR MULTI PSUBSCRIBE PUNSUBSCRIBE QUIT RESET SELECT"
                            + " SSUBSCRIBE SUBSCRIBE SUNSUBSCRIBE TXN UNSUBSCRIBE UNWATCH WATCH select";
            for (String name : names.split(" ")) {
                commands.add(new String[] {name, "1"});
            }
            commands.add(new String[] {"FENCE", "l", "1", "SELECT", "2"});
            Lock lock = db.lock("l", LockOptions.defaults());
            for (String[] words : commands) {
                assertThrows(OrderException.class, () -> db.ask(words));
                assertThrows(OrderException.class, () -> db.batch().write(words));
                assertThrows(OrderException.class, () -> db.fenced(lock).ask(words));
                assertThrows(OrderException.class, () -> db.run(tx -> tx.write(words)));
                assertThrows(OrderException.class, () -> db.run(tx -> tx.ask(words)));
                assertThrows(OrderException.class, () -> db.run(tx -> tx.askForUpdate(words)));
            }
            lock.close();
            assertThrows(OrderException.class, () -> db.ask("CLIENT", "REPLY", "OFF"));
            assertTrue((Long) db.ask("client", "id") > 0);
            assertDoesNotThrow(() -> db.ask("TXN", "HOLDERS", "l"));
        }

        @Test
        void aBatchThatIsTriedAgainHasItsReplies() {
            faults.fail("EXEC", Fault.UNANSWERED);
            Batch batch = db.batch();
            Deferred<Long> sum = batch.incr("n");
            assertTrue(batch.execute().isPresent());
            assertEquals(1, sum.value());
            faults.fail("EXEC", Fault.LOST);
            Batch other = db.batch();
            Deferred<Long> more = other.incr("n");
            assertTrue(other.execute().isPresent());
            assertEquals(2, more.value());
        }

        @Test
        void aRepeatedTransactionThatHasReadIsKnownAsRepeated() {
            RunOptions once = RunOptions.strict().once("order-1");
            for (int i = 0; i < 2; i++) {
                boolean repeated = i > 0;
                Runnable again =
                        () ->
                                db.run(
                                        tx -> {
                                            tx.incr("n");
                                            return tx.set("seen", tx.exists("n") + "-" + repeated);
                                        },
                                        once);
                if (repeated) {
                    assertThrows(RepeatedException.class, again::run);
                } else {
                    again.run();
                }
            }
            assertEquals("true-false", db.get("seen"));
        }

        @Test
        void aLockWhoseFirstRenewalFailsIsHeldOrReleased() throws InterruptedException {
            LockOptions brief = LockOptions.defaults().lease(Duration.ofSeconds(2));
            Lock first = db.lock("l", brief);
            faults.fail("LOCK.RENEW", Fault.LOST);
            CompletableFuture<Lock> next = CompletableFuture.supplyAsync(() -> db.lock("l", brief));
            Thread.sleep(500);
            first.close();
            try (Lock lock = next.join()) {
                assertTrue(lock.isHeld());
                faults.fail("LOCK.RENEW", Fault.REFUSED);
                faults.fail("LOCK.RENEW", Fault.FAILING);
                CompletableFuture<Lock> last = CompletableFuture.supplyAsync(() -> db.lock("m", brief));
                last.join().close();
            }
            assertFree("l");
        }

        @Test
        void aGrantIsReleasedIfItsRenewalFailsForGood() throws InterruptedException {
            Lock first = db.lock("l", LockOptions.defaults().lease(Duration.ofSeconds(20)));
            LockOptions options = LockOptions.defaults().lease(Duration.ofSeconds(5));
            CompletableFuture<Lock> next = CompletableFuture.supplyAsync(() -> db.lock("l", options));
            Thread.sleep(700);
            faults.fail("LOCK.RENEW", Fault.FAILING);
            first.close();
            assertThrows(ExecutionException.class, () -> next.get(5, TimeUnit.SECONDS));
            assertFree("l");
        }

        private void assertFree(String name) throws InterruptedException {
            Object holders = db.ask("LOCK.HOLDERS", name);
            assertEquals("[]", holders.toString());
        }

        @Test
        void aRenewalThatHangsOrFailsIsTriedAgain() throws InterruptedException {
            try (Lock lock = db.lock("l", LockOptions.defaults().lease(Duration.ofMillis(1800)))) {
                faults.fail("LOCK.RENEW", Fault.LATE);
                Thread.sleep(2000);
                assertTrue(lock.isHeld());
                faults.fail("LOCK.RENEW", Fault.FAILING);
                Thread.sleep(2000);
                assertTrue(lock.isHeld());
            }
        }

        @Test
        void aThreadThatGivesUpLeavesNoLock() throws InterruptedException {
            LockOptions options = LockOptions.defaults().lease(Duration.ofSeconds(20));
            int cancelled = 0;
            for (int i = 0; i < 60; i++) {
                String name = "l" + i;
                Lock first = db.lock(name, options);
                AtomicReference<Lock> got = new AtomicReference<>();
                Waiting waiting = new Waiting(() -> got.set(db.lock(name, options)));
                Thread.sleep(8);
                CompletableFuture<Void> killer = waiting.interruptAfter(i * 30_000L);
                first.close();
                killer.join();
                RuntimeException error = waiting.outcome.join();
                if (error == null) {
                    got.get().release();
                } else {
                    assertEquals(CancelledException.class, error.getClass());
                    cancelled++;
                }
                assertFree(name);
            }
            assertTrue(cancelled > 0);
        }

        @Test
        void aGrantWhoseAnswerIsNotSeenIsFoundAndReleased() throws InterruptedException {
            faults.fail("LOCK.ACQUIRE", Fault.LATE);
            AtomicBoolean interrupted = new AtomicBoolean();
            Waiting waiting =
                    new Waiting(
                            () -> {
                                try {
                                    db.lock("l", LockOptions.defaults());
                                } finally {
                                    interrupted.set(Thread.currentThread().isInterrupted());
                                }
                            });
            Thread.sleep(300);
            assertEquals(1, ((List<?>) db.ask("LOCK.HOLDERS", "l")).size());
            waiting.thread.interrupt();
            assertEquals(CancelledException.class, waiting.outcome.join().getClass());
            assertTrue(interrupted.get());
            // The thread does not wait for all of what is left to do.
            try (Lock next = db.lock("l", LockOptions.defaults().timeout(Duration.ofSeconds(5)))) {
                assertTrue(next.isHeld());
                assertTrue(faults.packets.stream().anyMatch(packet -> packet.startsWith("LOCK.RELEASE l ")));
            }
        }

        @Test
        void anOpeningUnderATextIsAlwaysSentAlone() {
            RunOptions options = RunOptions.strict();
            for (int i = 0; i < 3; i++) {
                String text = "order-" + i;
                faults.fail("TXN BEGIN", Fault.REFUSED);
                db.run(tx -> tx.set("n", tx.get("n") + "1"), options.once(text));
            }
            assertEquals("null111", db.get("n"));
            assertTrue(
                    faults.packets.stream()
                            .filter(packet -> packet.contains("TXN BEGIN"))
                            .allMatch(packet -> packet.split("; ").length == 2));
        }

        @Test
        void anElectionRefusesWhatIsNotForALead() {
            LockOptions options = LockOptions.defaults();
            for (LockOptions wrong : List.of(options.near(), options.next(), options.shared(), options.limit(2))) {
                assertThrows(OrderException.class, () -> db.election("e").campaign("here", wrong));
            }
            assertEquals(List.of(), faults.packets);
            db.election("e").campaign("here", options.detect("ann")).resign();
            assertTrue(faults.packets.stream().anyMatch(packet -> packet.endsWith("OWNER ann DETECT")));
        }

        @Test
        void aQueryOfATypeIsARead() {
            String text = "type visits\npart n counter\nquery count\n  return counter.get n";
            Type.parse(text).define(db);
            // Without a command to ask about, nothing is asked.
            assertTrue(faults.packets.stream().noneMatch(packet -> packet.startsWith("COMMAND INFO")));
            Type.parse(text).on(db, "v").call("count");
            assertEquals("TYPE.CALL_RO v visits.count", faults.packets.get(faults.packets.size() - 1));
        }

        @Test
        void anArrivalWhoseReplyIsLostMayCount() {
            faults.fail("BARRIER.WAIT", Fault.UNANSWERED);
            assertTrue(db.barrier("b", 1).await(Duration.ofSeconds(5)) > 0);
            faults.fail("BARRIER.WAIT", Fault.LOST);
            Barrier lone = db.barrier("b", 2);
            assertThrows(UnknownOutcomeException.class, () -> lone.await(Duration.ofMillis(200)));
        }

        @Test
        void allFuturesCompleteWhenTheConnectionBreaks() throws InterruptedException {
            for (int round = 0; round < 10; round++) {
                List<CompletableFuture<Object>> futures = new ArrayList<>();
                try (Dispatch dispatch = db.dispatch()) {
                    for (int i = 0; i < 200; i++) {
                        if (i == 100) {
                            faults.fail("INCR", round % 2 == 0 ? Fault.UNANSWERED : Fault.LOST);
                        }
                        futures.add(dispatch.send("INCR", "n"));
                    }
                }
                for (CompletableFuture<Object> future : futures) {
                    future.exceptionally(error -> null).orTimeout(2, TimeUnit.SECONDS).join();
                }
                assertTrue(futures.get(199).isCompletedExceptionally());
            }
        }
    }
}
