package claret;

import claret.wire.Convert;
import claret.wire.Words;
import java.time.Duration;
import java.util.function.Function;

/** Commands that write, as methods. Their replies are known when they have taken effect together. */
public interface DeferredWrites {
    /** Adds a command; its reply is converted when it is read. */
    <T> Deferred<T> write(Function<Object, T> convert, String... words);

    /** Adds a command. */
    default Deferred<Object> write(String... words) {
        return write(reply -> reply, words);
    }

    /** Sets a string. */
    default Deferred<Void> set(String key, String value) {
        return write(Convert::nothing, "SET", key, value);
    }

    /** Sets a string that expires. */
    default Deferred<Void> set(String key, String value, Duration expiry) {
        return write(Convert::nothing, "SET", key, value, "PX", Long.toString(expiry.toMillis()));
    }

    /** Sets a string if the key is absent. Returns whether it did. */
    default Deferred<Boolean> setIfAbsent(String key, String value) {
        return write(Convert::truth, "SET", key, value, "NX");
    }

    /** Sets a string. Returns the old one, or {@code null}. */
    default Deferred<String> getSet(String key, String value) {
        return write(Convert::text, "GETSET", key, value);
    }

    /** Adds one to an integer. Returns the sum. */
    default Deferred<Long> incr(String key) {
        return write(Convert::integer, "INCR", key);
    }

    /** Adds to an integer. Returns the sum. */
    default Deferred<Long> incrBy(String key, long delta) {
        return write(Convert::integer, "INCRBY", key, Long.toString(delta));
    }

    /** Appends to a string. Returns its length in bytes. */
    default Deferred<Long> append(String key, String value) {
        return write(Convert::integer, "APPEND", key, value);
    }

    /** Removes keys. Returns how many there were. */
    default Deferred<Long> del(String... keys) {
        return write(Convert::integer, Words.join(keys, "DEL"));
    }

    /** Lets a key expire. Returns whether it exists. */
    default Deferred<Boolean> expire(String key, Duration time) {
        return write(Convert::truth, "PEXPIRE", key, Long.toString(time.toMillis()));
    }

    /** Sets a field. Returns 1 if it is new, else 0. */
    default Deferred<Long> hset(String key, String field, String value) {
        return write(Convert::integer, "HSET", key, field, value);
    }

    /** Adds to a field that holds an integer. Returns the sum. */
    default Deferred<Long> hincrBy(String key, String field, long delta) {
        return write(Convert::integer, "HINCRBY", key, field, Long.toString(delta));
    }

    /** Removes fields. Returns how many there were. */
    default Deferred<Long> hdel(String key, String... fields) {
        return write(Convert::integer, Words.join(fields, "HDEL", key));
    }

    /** Adds members to a set. Returns how many are new. */
    default Deferred<Long> sadd(String key, String... members) {
        return write(Convert::integer, Words.join(members, "SADD", key));
    }

    /** Removes members from a set. Returns how many there were. */
    default Deferred<Long> srem(String key, String... members) {
        return write(Convert::integer, Words.join(members, "SREM", key));
    }

    /** Sets the score of a member. Returns 1 if it is new, else 0. */
    default Deferred<Long> zadd(String key, double score, String member) {
        return write(Convert::integer, "ZADD", key, Double.toString(score), member);
    }

    /** Adds to the score of a member. Returns the sum. */
    default Deferred<Double> zincrBy(String key, double delta, String member) {
        return write(Convert::number, "ZINCRBY", key, Double.toString(delta), member);
    }

    /** Removes members from a sorted set. Returns how many there were. */
    default Deferred<Long> zrem(String key, String... members) {
        return write(Convert::integer, Words.join(members, "ZREM", key));
    }

    /** Adds elements at the beginning of a list. Returns its length. */
    default Deferred<Long> lpush(String key, String... elements) {
        return write(Convert::integer, Words.join(elements, "LPUSH", key));
    }

    /** Adds elements at the end of a list. Returns its length. */
    default Deferred<Long> rpush(String key, String... elements) {
        return write(Convert::integer, Words.join(elements, "RPUSH", key));
    }

    /** Takes the first element of a list; {@code null} if there is none. */
    default Deferred<String> lpop(String key) {
        return write(Convert::text, "LPOP", key);
    }

    /** Takes the last element of a list; {@code null} if there is none. */
    default Deferred<String> rpop(String key) {
        return write(Convert::text, "RPOP", key);
    }

    /** Adds to a counter: such additions never wait for each other. */
    default Deferred<Void> counterAdd(String key, long delta) {
        return write(Convert::nothing, "COUNTER.ADD", key, Long.toString(delta));
    }

    /** Adds to a counter unless that leaves its bounds. Returns whether it did. */
    default Deferred<Boolean> counterTry(String key, long delta) {
        return write(Convert::truth, "COUNTER.TRY", key, Long.toString(delta));
    }
}
