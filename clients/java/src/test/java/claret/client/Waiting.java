package claret.client;

import java.util.concurrent.CompletableFuture;

/** A call in a thread of its own, with the exception that ends it. */
final class Waiting {
    final CompletableFuture<RuntimeException> outcome = new CompletableFuture<>();
    final Thread thread;

    Waiting(Runnable call) {
        thread =
                new Thread(
                        () -> {
                            try {
                                call.run();
                                outcome.complete(null);
                            } catch (RuntimeException error) {
                                outcome.complete(error);
                            }
                        });
        thread.start();
    }

    /** Interrupts the thread after some nanoseconds. */
    CompletableFuture<Void> interruptAfter(long waitNs) {
        return CompletableFuture.runAsync(
                () -> {
                    long endNs = System.nanoTime() + waitNs;
                    while (System.nanoTime() < endNs) {
                        Thread.onSpinWait();
                    }
                    thread.interrupt();
                });
    }
}
