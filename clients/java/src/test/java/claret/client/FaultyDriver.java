package claret.client;

import claret.error.ConnectionException;
import claret.net.Address;
import claret.net.Connection;
import claret.net.Driver;
import claret.net.ErrorReply;
import claret.net.Setup;
import claret.wire.Interrupts;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.function.Consumer;

/** A driver over another one, whose connections fail at chosen commands. */
final class FaultyDriver implements Driver {
    /** What happens to a command. */
    enum Fault {
        NONE,
        /** The server does not get it, and seems to refuse it. */
        REFUSED,
        /** The connection breaks before it is sent. */
        LOST,
        /** The connection breaks when it has been carried out. */
        UNANSWERED,
        /** There is no reply in time. */
        LATE,
        /** The library fails. */
        FAILING
    }

    private record Rule(String start, Fault fault) {}

    private final Driver inner;
    private final List<Rule> rules = new CopyOnWriteArrayList<>();

    /** What was sent, a packet with its commands each. */
    final List<String> packets = new CopyOnWriteArrayList<>();

    FaultyDriver(Driver inner) {
        this.inner = inner;
    }

    /** Lets the next command that begins so fail. */
    void fail(String start, Fault fault) {
        rules.add(new Rule(start, fault));
    }

    private Fault fault(String command) {
        for (Rule rule : rules) {
            if (command.toUpperCase(Locale.ROOT).startsWith(rule.start()) && rules.remove(rule)) {
                return rule.fault();
            }
        }
        return Fault.NONE;
    }

    @Override
    public Connection open(Address address, Setup setup) {
        return new Link(inner.open(address, setup));
    }

    @Override
    public void close() {
        inner.close();
    }

    private final class Link implements Connection {
        private final Connection inner;
        private final BlockingQueue<Fault> waiting = new LinkedBlockingQueue<>();

        Link(Connection inner) {
            this.inner = inner;
        }

        @Override
        public void send(List<List<String>> commands) {
            packets.add(String.join("; ", commands.stream().map(words -> String.join(" ", words)).toList()));
            for (List<String> words : commands) {
                Fault fault = fault(String.join(" ", words));
                if (fault == Fault.FAILING) {
                    throw new IllegalStateException("the library fails");
                }
                if (fault == Fault.LOST) {
                    close();
                    throw new ConnectionException("lost", null);
                }
                waiting.add(fault);
                if (fault != Fault.REFUSED) {
                    inner.send(List.of(words));
                }
            }
        }

        @Override
        public Object receive(long waitMs) {
            Fault fault = waiting.poll();
            if (fault == Fault.REFUSED) {
                return ErrorReply.parse("BUSY come later");
            }
            if (fault == Fault.LATE) {
                Interrupts.sleep(waitMs);
                close();
                throw new ConnectionException("late", null);
            }
            Object reply = inner.receive(waitMs);
            if (fault == Fault.UNANSWERED) {
                close();
                throw new ConnectionException("lost", null);
            }
            return reply;
        }

        @Override
        public void onPush(Consumer<List<?>> listener) {
            inner.onPush(listener);
        }

        @Override
        public long id() {
            return inner.id();
        }

        @Override
        public boolean isAlive() {
            return inner.isAlive();
        }

        @Override
        public void close() {
            inner.close();
        }
    }
}
