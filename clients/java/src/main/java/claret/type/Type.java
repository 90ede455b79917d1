package claret.type;

import claret.Claret;
import claret.Deferred;
import claret.DeferredWrites;
import claret.Reads;
import claret.wire.Convert;
import claret.wire.Words;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;

/** A composed type, by its definition: the text of {@code TYPE.DEFINE}. */
public final class Type {
    private static final Set<String> SECTIONS = Set.of("part", "map", "without", "expired");

    private record Operation(List<String> parameters, Set<String> commands) {}

    private final String definition;
    private final String name;
    private final Map<String, Operation> operations = new LinkedHashMap<>();
    private volatile Set<String> reads;

    private Type(String definition) {
        this.definition = definition;
        String found = null;
        Operation current = null;
        for (String line : definition.lines().toList()) {
            String[] words = line.strip().split("\\s+");
            if (words[0].isEmpty() || words[0].startsWith("#")) {
                continue;
            }
            if (words[0].equals("type") && found == null && words.length > 1) {
                found = words[1];
            } else if (Set.of("op", "query").contains(words[0]) && words.length > 1) {
                current = new Operation(parameters(words), new HashSet<>());
                operations.put(words[1], current);
                if (words[0].equals("query")) {
                    current = null; // Whatever its steps are, they only read.
                }
            } else if (SECTIONS.contains(words[0])) {
                current = null;
            } else if (current != null && words[0].startsWith("|")) {
                current.commands().add("set"); // A program may write.
            } else if (current != null) {
                boolean led = words.length > 1 && (words[0].equals("return") || words[0].equals("require"));
                current.commands().add(words[led ? 1 : 0].toLowerCase(Locale.ROOT));
            }
        }
        if (found == null) {
            throw new IllegalArgumentException("a definition begins with 'type' and a name");
        }
        name = found;
        reads = those(Set.of());
    }

    private static List<String> parameters(String[] words) {
        List<String> names = new ArrayList<>();
        for (int i = 2; i < words.length; i++) {
            names.add(words[i].split(":")[0]);
        }
        return List.copyOf(names);
    }

    /**
     * Reads a definition: its name, and its operations with their parameters. The server checks the
     * rest.
     *
     * @throws IllegalArgumentException if it has no name
     */
    public static Type parse(String definition) {
        return new Type(definition);
    }

    /** Name of the type. */
    public String name() {
        return name;
    }

    /** Names of the operations. */
    public Set<String> operations() {
        return Set.copyOf(operations.keySet());
    }

    /** Names of the parameters of an operation. */
    public List<String> parameters(String operation) {
        return operation(operation).parameters();
    }

    /**
     * Defines the type, unless it is there already, and returns its version. To be called before its
     * values are used, at every start.
     */
    public long define(Claret db) {
        return put(db, "TYPE.DEFINE");
    }

    /** Gives the type this definition, which takes its values over. Returns the version. */
    public long migrate(Claret db) {
        return put(db, "TYPE.MIGRATE");
    }

    private long put(Claret db, String command) {
        long version = Convert.integer(db.ask(command, name, definition));
        Set<String> commands = new HashSet<>();
        operations.values().forEach(about -> commands.addAll(about.commands()));
        if (!commands.isEmpty()) {
            reads = those(readingCommands(db, commands));
        }
        return version;
    }

    /** The operations that only read, if these commands do. */
    private Set<String> those(Set<String> reading) {
        Set<String> found = new HashSet<>();
        operations.forEach(
                (operation, about) -> {
                    if (reading.containsAll(about.commands())) {
                        found.add(operation);
                    }
                });
        return found;
    }

    private static Set<String> readingCommands(Claret db, Set<String> commands) {
        String[] words = Words.join(commands.toArray(String[]::new), "COMMAND", "INFO");
        Set<String> reading = new HashSet<>();
        for (Object row : (List<?>) db.ask(words)) {
            if (row instanceof List<?> about
                    && about.get(2) instanceof Collection<?> flags
                    && !flags.contains("write")) {
                reading.add(about.get(0).toString());
            }
        }
        return reading;
    }

    /** The value under a key, whose operations are answered at once; on a database or transaction. */
    public Value on(Reads target, String key) {
        return new Value(target, key);
    }

    /** The value under a key, whose operations are answered later; in a transaction or batch. */
    public DeferredValue deferred(DeferredWrites target, String key) {
        return new DeferredValue(target, key);
    }

    private Operation operation(String operation) {
        Operation found = operations.get(operation);
        if (found == null) {
            throw new IllegalArgumentException(
                    name + " has no operation " + operation + ", only " + operations.keySet());
        }
        return found;
    }

    private String[] words(String key, String operation, Object... arguments) {
        List<String> parameters = operation(operation).parameters();
        if (parameters.size() != arguments.length) {
            throw new IllegalArgumentException(name + "." + operation + parameters);
        }
        List<String> words = new ArrayList<>();
        words.add(reads.contains(operation) ? "TYPE.CALL_RO" : "TYPE.CALL");
        words.addAll(List.of(key, name + "." + operation));
        for (Object argument : arguments) {
            words.add(String.valueOf(argument));
        }
        return words.toArray(String[]::new);
    }

    /** A value whose operations are answered at once. */
    public final class Value {
        private final Reads target;
        private final String key;

        private Value(Reads target, String key) {
            this.target = target;
            this.key = key;
        }

        /** Calls an operation with its arguments, and returns its reply. */
        public Object call(String operation, Object... arguments) {
            return target.ask(words(key, operation, arguments));
        }
    }

    /** A value whose operations are answered when the transaction or batch takes effect. */
    public final class DeferredValue {
        private final DeferredWrites target;
        private final String key;

        private DeferredValue(DeferredWrites target, String key) {
            this.target = target;
            this.key = key;
        }

        /** Calls an operation with its arguments. */
        public Deferred<Object> call(String operation, Object... arguments) {
            return target.write(words(key, operation, arguments));
        }
    }
}
