package claret.net;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.util.RedisInputStream;

/** Reads replies from Jedis's input, in either version of the protocol. */
final class JedisReplies {
    private JedisReplies() {}

    /** The next reply; messages that were not asked for come before it, and go to the listener. */
    static Object read(RedisInputStream stream, Consumer<List<?>> pushes) {
        byte kind = stream.readByte();
        while (kind == '>') {
            List<Object> message = new ArrayList<>();
            elements(stream, message);
            pushes.accept(message);
            kind = stream.readByte();
        }
        return read(stream, kind);
    }

    private static Object part(RedisInputStream stream) {
        return read(stream, stream.readByte());
    }

    private static Object read(RedisInputStream stream, byte kind) {
        return switch (kind) {
            case '+' -> Status.of(line(stream));
            case '-' -> ErrorReply.parse(line(stream));
            case ':' -> stream.readLongCrLf();
            case '$' -> bulk(stream);
            case '=' -> bulk(stream).substring(4);
            case '!' -> ErrorReply.parse(bulk(stream));
            case '_' -> stream.readNullCrLf();
            case '#' -> stream.readBooleanCrLf();
            case ',' -> stream.readDoubleCrLf();
            case '(' -> line(stream);
            case '*' -> elements(stream, new ArrayList<>());
            case '~' -> elements(stream, new LinkedHashSet<>());
            case '%' -> map(stream);
            default -> throw new JedisConnectionException("unknown kind of reply: " + (char) kind);
        };
    }

    private static String line(RedisInputStream stream) {
        return new String(stream.readLineBytes(), StandardCharsets.UTF_8);
    }

    private static String bulk(RedisInputStream stream) {
        int length = stream.readIntCrLf();
        if (length < 0) {
            return null;
        }
        ByteArrayOutputStream bytes = new ByteArrayOutputStream(length);
        byte[] part = new byte[Math.min(length, 8192) + 2];
        for (int left = length + 2; left > 0; ) {
            int count = stream.read(part, 0, Math.min(part.length, left));
            if (count < 0) {
                throw new JedisConnectionException("the connection ended within a reply");
            }
            bytes.write(part, 0, count);
            left -= count;
        }
        return new String(bytes.toByteArray(), 0, length, StandardCharsets.UTF_8);
    }

    private static Collection<Object> elements(RedisInputStream stream, Collection<Object> into) {
        int length = stream.readIntCrLf();
        if (length < 0) {
            return null;
        }
        for (int i = 0; i < length; i++) {
            into.add(part(stream));
        }
        return into;
    }

    private static Map<Object, Object> map(RedisInputStream stream) {
        Map<Object, Object> map = new LinkedHashMap<>();
        int length = stream.readIntCrLf();
        for (int i = 0; i < length; i++) {
            Object key = part(stream);
            map.put(key, part(stream));
        }
        return map;
    }
}
