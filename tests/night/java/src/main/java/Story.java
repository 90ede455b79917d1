import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** What the programs share: lines about what was seen, waiting, and threads. */
final class Story {
    private static final long WAIT_MS = 30_000;

    private Story() {}

    /** The port of the server. From now on an error ends the program, though threads of a library run. */
    static int begin(String[] words) {
        Thread.setDefaultUncaughtExceptionHandler((thread, error) -> {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        });
        return Integer.parseInt(words[0]);
    }

    /** Says what was seen, in a line that has to be the same on every server. */
    static void say(String name, Object... values) {
        String all = Stream.of(values).map(String::valueOf).collect(Collectors.joining(" "));
        System.out.println(name + ": " + all);
    }

    /** Waits until something has become true. */
    static void until(String what, Callable<Boolean> condition) throws Exception {
        long end = System.currentTimeMillis() + WAIT_MS;
        while (!condition.call()) {
            if (System.currentTimeMillis() > end) {
                throw new AssertionError("this did not happen in time: " + what);
            }
            Thread.sleep(10);
        }
    }

    /** The work of one of several threads. */
    interface Part<T> {
        T of(int number) throws Exception;
    }

    /** The results of work that threads do side by side, each with its number. */
    static <T> List<T> sideBySide(int threads, Part<T> part) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        try {
            List<Future<T>> futures = new ArrayList<>();
            for (int number = 0; number < threads; number++) {
                int mine = number;
                futures.add(pool.submit(() -> part.of(mine)));
            }
            List<T> results = new ArrayList<>();
            for (Future<T> future : futures) {
                results.add(future.get());
            }
            return results;
        } catch (ExecutionException error) {
            throw new AssertionError("a thread has failed", error.getCause());
        } finally {
            pool.shutdownNow();
        }
    }
}
