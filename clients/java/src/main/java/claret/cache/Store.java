package claret.cache;

import claret.net.ErrorReply;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Entries by key and words. For one thread at a time. */
final class Store {
    // Share of each part of a reply in its size, beside its text.
    private static final int PART_BYTES = 16;

    private final CacheOptions limits;
    private final Map<String, Map<List<String>, Entry>> keys = new HashMap<>();
    // Those with replies, the one used longest ago first.
    private final Set<Entry> kept = new LinkedHashSet<>();

    Store(CacheOptions limits) {
        this.limits = limits;
    }

    /** The entry of these words, or {@code null}. */
    Entry find(List<String> words) {
        return keys.getOrDefault(words.get(1), Map.of()).get(words);
    }

    boolean isKept(Entry entry) {
        return kept.contains(entry);
    }

    /** Notes that the kept reply of an entry is used now. */
    void use(Entry entry) {
        kept.remove(entry);
        kept.add(entry);
    }

    /** Notes a request that is under way, in place of a reply that is there. */
    void begin(Entry asked) {
        Entry old = keys.computeIfAbsent(asked.key(), key -> new HashMap<>()).put(asked.words, asked);
        kept.remove(old);
    }

    /**
     * Keeps the reply to a request, unless its key has changed meanwhile, or it is an error or large.
     * Those used longest ago make room.
     */
    void keep(Entry asked, Object reply) {
        if (find(asked.words) != asked) {
            return;
        }
        if (reply instanceof ErrorReply || sizeOf(reply) > limits.maxReplyBytes()) {
            remove(asked);
            return;
        }
        kept.add(asked);
        if (kept.size() > limits.maxEntries()) {
            remove(kept.iterator().next());
        }
    }

    private void remove(Entry old) {
        Map<List<String>, Entry> entries = keys.get(old.key());
        entries.remove(old.words);
        if (entries.isEmpty()) {
            keys.remove(old.key());
        }
        kept.remove(old);
    }

    /** Drops the replies of a key, and lets those under way not be kept. Returns how many were kept. */
    int forget(String key) {
        int before = kept.size();
        Map<List<String>, Entry> entries = keys.remove(key);
        if (entries != null) {
            entries.values().forEach(kept::remove);
        }
        return before - kept.size();
    }

    /** Forgets all keys. Returns how many replies were kept. */
    int clear() {
        int before = kept.size();
        keys.clear();
        kept.clear();
        return before;
    }

    private static int sizeOf(Object reply) {
        int size = PART_BYTES;
        if (reply instanceof CharSequence text) {
            size += text.length();
        } else if (reply instanceof Collection<?> parts) {
            for (Object part : parts) {
                size += sizeOf(part);
            }
        } else if (reply instanceof Map<?, ?> map) {
            for (Map.Entry<?, ?> pair : map.entrySet()) {
                size += sizeOf(pair.getKey()) + sizeOf(pair.getValue());
            }
        }
        return size;
    }

    /** The same reply, which its readers cannot change. */
    static Object frozen(Object reply) {
        if (reply instanceof List<?> list) {
            return Collections.unmodifiableList(frozen(list, new ArrayList<>(list.size())));
        }
        if (reply instanceof Set<?> set) {
            return Collections.unmodifiableSet(frozen(set, new LinkedHashSet<>()));
        }
        if (reply instanceof Map<?, ?> map) {
            Map<Object, Object> copy = new LinkedHashMap<>();
            map.forEach((key, value) -> copy.put(frozen(key), frozen(value)));
            return Collections.unmodifiableMap(copy);
        }
        return reply;
    }

    private static <C extends Collection<Object>> C frozen(Collection<?> parts, C into) {
        parts.forEach(part -> into.add(frozen(part)));
        return into;
    }
}
