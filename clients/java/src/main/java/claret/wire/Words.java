package claret.wire;

import claret.error.OrderException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Set;

/** Words of commands. */
public final class Words {
    // Commands that change the connection for its next user, or that have no single reply.
    private static final Set<String> OF_CONNECTION =
            Set.of(
                    "AUTH", "CLIENT", "DISCARD", "EXEC", "HELLO", "MONITOR", "MULTI", "PSUBSCRIBE",
                    "PUNSUBSCRIBE", "QUIT", "RESET", "SELECT", "SSUBSCRIBE", "SUBSCRIBE", "SUNSUBSCRIBE",
                    "TXN", "UNSUBSCRIBE", "UNWATCH", "WATCH");

    // Those of them that leave the connection as it is.
    private static final Set<String> HARMLESS =
            Set.of(
                    "TXN RESOLVE", "TXN HOLDERS", "CLIENT GETNAME", "CLIENT HELP", "CLIENT ID",
                    "CLIENT INFO", "CLIENT KILL", "CLIENT LIST", "CLIENT PAUSE", "CLIENT UNBLOCK",
                    "CLIENT UNPAUSE");

    private Words() {}

    /** The words of a command of its own; refuses one that changes the connection. */
    public static List<String> single(String... words) {
        List<String> list = checked(words);
        String start = list.size() < 2 ? "" : (list.get(0) + " " + list.get(1)).toUpperCase(Locale.ROOT);
        return HARMLESS.contains(start) ? list : refuseOfConnection(list);
    }

    /** The words of a command among others; refuses one about the connection. */
    public static List<String> inside(String... words) {
        return refuseOfConnection(checked(words));
    }

    private static List<String> refuseOfConnection(List<String> words) {
        String name = words.get(0).toUpperCase(Locale.ROOT);
        if (OF_CONNECTION.contains(name)) {
            throw new OrderException(
                    name
                            + " is about a connection, which the client shares among requests: use run, batch,"
                            + " askForUpdate or the options of connect instead");
        }
        if (name.equals("FENCE") && words.size() > 3) {
            refuseOfConnection(words.subList(3, words.size()));
        }
        return words;
    }

    /** Refuses times below zero; {@code null} is none. */
    public static void checkTimes(Duration... times) {
        for (Duration time : times) {
            if (time != null && time.isNegative()) {
                throw new IllegalArgumentException("a time is zero at least, and not " + time);
            }
        }
    }

    /** The first words of a command, with more behind them. */
    public static String[] join(String[] more, String... first) {
        String[] words = new String[first.length + more.length];
        System.arraycopy(first, 0, words, 0, first.length);
        System.arraycopy(more, 0, words, first.length, more.length);
        return words;
    }

    /** The words as a list; refuses a command without a name, and a word that is missing. */
    public static List<String> checked(String... words) {
        if (words.length == 0) {
            throw new OrderException("a command has a name");
        }
        List<String> list = new ArrayList<>(words.length);
        for (String word : words) {
            if (word == null) {
                throw new OrderException("a word of " + words[0] + " is null");
            }
            list.add(word);
        }
        return Collections.unmodifiableList(list);
    }
}
