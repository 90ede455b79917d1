package claret.lock;

import claret.error.OrderException;
import claret.wire.Convert;
import claret.wire.Translate;
import claret.wire.Waits;
import claret.wire.Wire;
import claret.wire.Words;
import java.time.Duration;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.Optional;

/** An election: a lock whose holder, the leader, has a value that every client can read and follow. */
public final class Election {
    // Longest wait of one request for a new version, after which a lost server is noticed.
    private static final long OBSERVE_MS = 60_000;

    private final Wire wire;
    private final String name;

    /** An election; see {@link claret.Claret#election}. */
    public Election(Wire wire, String name) {
        this.wire = wire;
        this.name = name;
    }

    /**
     * Waits in turn until elected, and proclaims a value. A lead is held alone, and the server knows who
     * leads: {@code shared}, {@code limit}, {@code near} and {@code next} are refused.
     *
     * @throws NotAcquiredException if that took too long
     */
    public Leadership campaign(String value, LockOptions options) {
        if (options.shared || options.limit > 0 || options.manner != LockOptions.Manner.PLAIN) {
            throw new OrderException("an election has one leader, which the server knows");
        }
        Lease lease = options.acquire(wire, name, waitMs -> words(value, options, waitMs));
        if (lease == null) {
            throw new NotAcquiredException("the election " + name + " was not won in time");
        }
        return new Leadership(lease);
    }

    private List<String> words(String value, LockOptions options, Long waitMs) {
        List<String> words =
                Lease.words(options.lease, waitMs, options.owner, "ELECTION.CAMPAIGN", name, value);
        if (options.detect) {
            words.add("DETECT");
        }
        return words;
    }

    /** The leader, if there is one. */
    public Optional<Leader> leader() {
        return Leader.of(Translate.checked(wire.command(List.of("ELECTION.LEADER", name))));
    }

    /**
     * The leaders, one after another: the present one, if there is one, and each new one or new value;
     * empty if there is no leader any more. Versions that last shortly may be skipped, the newest is
     * not. {@code hasNext} waits, and is false when there was no change for this time; {@code null}
     * waits for ever.
     */
    public Iterator<Optional<Leader>> observe(Duration timeout) {
        Words.checkTimes(timeout);
        return new Observation(timeout);
    }

    private final class Observation implements Iterator<Optional<Leader>> {
        private final Duration timeout;
        private long seen;
        private List<?> row;

        Observation(Duration timeout) {
            this.timeout = timeout;
        }

        @Override
        public boolean hasNext() {
            long begunNs = System.nanoTime();
            while (row == null) {
                Long leftMs = Waits.leftMs(timeout, begunNs);
                long waitMs = leftMs == null ? OBSERVE_MS : Math.max(1, Math.min(OBSERVE_MS, leftMs));
                row = Waits.untilAnswered(wire, Duration.ofMillis(waitMs), (left, again) -> next(left));
                if (row == null && leftMs != null && leftMs <= waitMs) {
                    return false;
                }
            }
            return true;
        }

        private List<?> next(Long waitMs) {
            String[] words = {
                "ELECTION.OBSERVE", name, "AFTER", Long.toString(seen), "TIMEOUT", Long.toString(waitMs)
            };
            return (List<?>) Waits.ask(wire, List.of(List.of(words)), waitMs, Waits.GRACE_MS);
        }

        @Override
        public Optional<Leader> next() {
            if (!hasNext()) {
                throw new NoSuchElementException("no new leader in time");
            }
            List<?> found = row;
            row = null;
            seen = Convert.integer(found.get(found.size() - 1));
            return Leader.of(found);
        }
    }

    /**
     * A leader: fencing token, name and value, the time left of its lease, and a version that grows with
     * every leader and every value.
     */
    public record Leader(long token, String owner, String value, Duration left, long version) {
        static Optional<Leader> of(Object reply) {
            if (!(reply instanceof List<?> row) || row.get(0) == null) {
                return Optional.empty();
            }
            Duration left = Duration.ofMillis(Convert.integer(row.get(3)));
            return Optional.of(
                    new Leader(
                            Convert.integer(row.get(0)),
                            Convert.text(row.get(1)),
                            Convert.text(row.get(2)),
                            left,
                            Convert.integer(row.get(4))));
        }
    }

    /** The leadership of this client, renewed by a daemon thread until it resigns. */
    public final class Leadership extends Leased {
        private Leadership(Lease lease) {
            super(lease);
        }

        /**
         * Replaces the leader's value, and returns its version.
         *
         * @throws LockLostException if this client does not lead any more
         */
        public long proclaim(String value) {
            List<String> words = List.of("ELECTION.PROCLAIM", name, Long.toString(token()), value);
            long version = Convert.integer(Translate.checked(wire.command(words)));
            if (version == 0) {
                throw lease.lose();
            }
            return version;
        }

        /** Ends the leadership; returns whether there was one. */
        public boolean resign() {
            return lease.release();
        }

        /** Resigns. */
        @Override
        public void close() {
            resign();
        }
    }
}
