package claret;

import claret.wire.Convert;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Commands that read, as methods. Each waits for its reply. */
public interface Reads {
    /**
     * Sends a command and waits for its reply: {@code null}, {@link String}, {@link Long}, {@link
     * Double}, {@link Boolean}, {@link List}, {@link Set} or {@link Map}. An error reply is thrown.
     */
    Object ask(String... words);

    /** Value of a string; {@code null} if there is none. */
    default String get(String key) {
        return Convert.text(ask("GET", key));
    }

    /** Whether a key exists. */
    default boolean exists(String key) {
        return Convert.truth(ask("EXISTS", key));
    }

    /** Number of bytes of a string. */
    default long strlen(String key) {
        return Convert.integer(ask("STRLEN", key));
    }

    /** Milliseconds until a key expires; -1: never, -2: there is no key. */
    default long pttl(String key) {
        return Convert.integer(ask("PTTL", key));
    }

    /** Value of a field; {@code null} if there is none. */
    default String hget(String key, String field) {
        return Convert.text(ask("HGET", key, field));
    }

    /** All fields with their values. */
    default Map<String, String> hgetAll(String key) {
        return Convert.map(ask("HGETALL", key));
    }

    /** Whether a field exists. */
    default boolean hexists(String key, String field) {
        return Convert.truth(ask("HEXISTS", key, field));
    }

    /** Number of fields. */
    default long hlen(String key) {
        return Convert.integer(ask("HLEN", key));
    }

    /** All members of a set. */
    default Set<String> smembers(String key) {
        return Convert.set(ask("SMEMBERS", key));
    }

    /** Whether a set has a member. */
    default boolean sismember(String key, String member) {
        return Convert.truth(ask("SISMEMBER", key, member));
    }

    /** Number of members of a set. */
    default long scard(String key) {
        return Convert.integer(ask("SCARD", key));
    }

    /** Score of a member; {@code null} if there is none. */
    default Double zscore(String key, String member) {
        return Convert.number(ask("ZSCORE", key, member));
    }

    /** Number of members before a member; {@code null} if it is not in the set. */
    default Long zrank(String key, String member) {
        return Convert.integer(ask("ZRANK", key, member));
    }

    /** Number of members of a sorted set. */
    default long zcard(String key) {
        return Convert.integer(ask("ZCARD", key));
    }

    /** Members by rank, both ends included, -1 being the last. */
    default List<String> zrange(String key, long first, long last) {
        return Convert.texts(ask("ZRANGE", key, Long.toString(first), Long.toString(last)));
    }

    /** Number of elements of a list. */
    default long llen(String key) {
        return Convert.integer(ask("LLEN", key));
    }

    /** Elements of a list, both ends included, -1 being the last. */
    default List<String> lrange(String key, long first, long last) {
        return Convert.texts(ask("LRANGE", key, Long.toString(first), Long.toString(last)));
    }

    /** Value of a counter. */
    default long counterGet(String key) {
        return Convert.integer(ask("COUNTER.GET", key));
    }

    /** Whether a counter has an amount at least: excludes only changes of that answer. */
    default boolean counterAtLeast(String key, long amount) {
        return Convert.truth(ask("COUNTER.ATLEAST", key, Long.toString(amount)));
    }
}
