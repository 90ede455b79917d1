package claret.wire;

import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Typed forms of replies. */
public final class Convert {
    private Convert() {}

    /** A text, or {@code null}. */
    public static String text(Object reply) {
        return reply == null ? null : reply.toString();
    }

    /** An integer, or {@code null}. */
    public static Long integer(Object reply) {
        return reply == null || reply instanceof Long ? (Long) reply : Long.valueOf(reply.toString());
    }

    /** A number, or {@code null}. */
    public static Double number(Object reply) {
        if (reply instanceof Number number) {
            return number.doubleValue();
        }
        return reply == null ? null : Double.valueOf(reply.toString());
    }

    /** Whether the reply is true, a number other than 0, or a status. */
    public static Boolean truth(Object reply) {
        if (reply instanceof Boolean truth) {
            return truth;
        }
        return reply != null && !(reply instanceof Long number && number == 0);
    }

    /** Nothing, whatever the reply says. */
    public static Void nothing(Object reply) {
        return null;
    }

    /** A list of texts. */
    public static List<String> texts(Object reply) {
        List<String> texts = new ArrayList<>();
        for (Object element : (Collection<?>) reply) {
            texts.add(text(element));
        }
        return texts;
    }

    /** A set of texts. */
    public static Set<String> set(Object reply) {
        return new LinkedHashSet<>(texts(reply));
    }

    /** A map of texts. */
    public static Map<String, String> map(Object reply) {
        Map<String, String> map = new LinkedHashMap<>();
        ((Map<?, ?>) reply).forEach((key, value) -> map.put(text(key), text(value)));
        return map;
    }
}
