package claret.wire;

import java.util.Deque;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Request numbers: names that are unique for ever, each with a count.
 *
 * <p>Each open request has a name of its own. The server remembers the outcomes of the last numbers of
 * each name: if several requests shared one, the others could make it forget the outcome that one of
 * them still has to ask for.
 */
public final class Requests {
    private final String prefix = "java-" + UUID.randomUUID().toString().replace("-", "");
    private final AtomicLong made = new AtomicLong();
    private final Deque<Numbers> free = new ConcurrentLinkedDeque<>();

    /** A name with its numbers; closing it lets another request use the name. */
    public static final class Numbers implements AutoCloseable {
        private final String name;
        private final Requests owner;
        private long last;

        private Numbers(String name, Requests owner) {
            this.name = name;
            this.owner = owner;
        }

        /** The next number, which was never issued before. */
        public Request next() {
            last++;
            return new Request(name, last);
        }

        @Override
        public void close() {
            if (owner != null) {
                owner.free.push(this);
            }
        }
    }

    /** Name and number of a request. */
    public record Request(String name, long number) {
        /** The command that gives the next request this number. */
        public List<String> announcement() {
            return List.of("CLIENT", "REQUEST", name, Long.toString(number));
        }

        /** The command that asks whether the request took effect, and settles that it never will. */
        public List<String> question() {
            return List.of("TXN", "RESOLVE", name, Long.toString(number));
        }
    }

    /** A name that no other open request uses. */
    public Numbers borrow() {
        Numbers numbers = free.poll();
        return numbers != null ? numbers : new Numbers(prefix + "-" + made.incrementAndGet(), this);
    }

    /** Numbers of a request that takes effect once, whatever process repeats it. */
    public static Numbers once(String text) {
        return new Numbers("once:" + text, null);
    }
}
