package claret;

import claret.wire.Convert;
import claret.wire.Words;
import java.time.Duration;

/** Commands that write, as methods. Each waits for its reply. */
public interface Writes {
    /** Sends a command and waits for its reply. An error reply is thrown. */
    Object ask(String... words);

    /** Sets a string. */
    default void set(String key, String value) {
        ask("SET", key, value);
    }

    /** Sets a string that expires. */
    default void set(String key, String value, Duration expiry) {
        ask("SET", key, value, "PX", Long.toString(expiry.toMillis()));
    }

    /** Sets a string if the key is absent. Returns whether it did. */
    default boolean setIfAbsent(String key, String value) {
        return Convert.truth(ask("SET", key, value, "NX"));
    }

    /** Sets a string. Returns the old one, or {@code null}. */
    default String getSet(String key, String value) {
        return Convert.text(ask("GETSET", key, value));
    }

    /** Adds one to an integer. Returns the sum. */
    default long incr(String key) {
        return Convert.integer(ask("INCR", key));
    }

    /** Adds to an integer. Returns the sum. */
    default long incrBy(String key, long delta) {
        return Convert.integer(ask("INCRBY", key, Long.toString(delta)));
    }

    /** Appends to a string. Returns its length in bytes. */
    default long append(String key, String value) {
        return Convert.integer(ask("APPEND", key, value));
    }

    /** Removes keys. Returns how many there were. */
    default long del(String... keys) {
        return Convert.integer(ask(Words.join(keys, "DEL")));
    }

    /** Lets a key expire. Returns whether it exists. */
    default boolean expire(String key, Duration time) {
        return Convert.truth(ask("PEXPIRE", key, Long.toString(time.toMillis())));
    }

    /** Sets a field. Returns 1 if it is new, else 0. */
    default long hset(String key, String field, String value) {
        return Convert.integer(ask("HSET", key, field, value));
    }

    /** Adds to a field that holds an integer. Returns the sum. */
    default long hincrBy(String key, String field, long delta) {
        return Convert.integer(ask("HINCRBY", key, field, Long.toString(delta)));
    }

    /** Removes fields. Returns how many there were. */
    default long hdel(String key, String... fields) {
        return Convert.integer(ask(Words.join(fields, "HDEL", key)));
    }

    /** Adds members to a set. Returns how many are new. */
    default long sadd(String key, String... members) {
        return Convert.integer(ask(Words.join(members, "SADD", key)));
    }

    /** Removes members from a set. Returns how many there were. */
    default long srem(String key, String... members) {
        return Convert.integer(ask(Words.join(members, "SREM", key)));
    }

    /** Sets the score of a member. Returns 1 if it is new, else 0. */
    default long zadd(String key, double score, String member) {
        return Convert.integer(ask("ZADD", key, Double.toString(score), member));
    }

    /** Adds to the score of a member. Returns the sum. */
    default double zincrBy(String key, double delta, String member) {
        return Convert.number(ask("ZINCRBY", key, Double.toString(delta), member));
    }

    /** Removes members from a sorted set. Returns how many there were. */
    default long zrem(String key, String... members) {
        return Convert.integer(ask(Words.join(members, "ZREM", key)));
    }

    /** Adds elements at the beginning of a list. Returns its length. */
    default long lpush(String key, String... elements) {
        return Convert.integer(ask(Words.join(elements, "LPUSH", key)));
    }

    /** Adds elements at the end of a list. Returns its length. */
    default long rpush(String key, String... elements) {
        return Convert.integer(ask(Words.join(elements, "RPUSH", key)));
    }

    /** Takes the first element of a list; {@code null} if there is none. */
    default String lpop(String key) {
        return Convert.text(ask("LPOP", key));
    }

    /** Takes the last element of a list; {@code null} if there is none. */
    default String rpop(String key) {
        return Convert.text(ask("RPOP", key));
    }

    /** Adds to a counter: such additions never wait for each other. */
    default void counterAdd(String key, long delta) {
        ask("COUNTER.ADD", key, Long.toString(delta));
    }

    /** Adds to a counter unless that leaves its bounds. Returns whether it did. */
    default boolean counterTry(String key, long delta) {
        return Convert.truth(ask("COUNTER.TRY", key, Long.toString(delta)));
    }
}
