package claret.agent;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import java.util.Collection;
import java.util.Map;
import java.util.Optional;

/** Replies and values as JSON. */
final class Json {
    private Json() {}

    static JsonElement of(Object value) {
        if (value instanceof JsonElement element) {
            return element;
        }
        if (value == null) {
            return JsonNull.INSTANCE;
        }
        if (value instanceof Optional<?> optional) {
            return of(optional.orElse(null));
        }
        if (value instanceof Number number) {
            return new JsonPrimitive(number);
        }
        if (value instanceof Boolean truth) {
            return new JsonPrimitive(truth);
        }
        if (value instanceof Collection<?> elements) {
            JsonArray array = new JsonArray();
            elements.forEach(element -> array.add(of(element)));
            return array;
        }
        if (value instanceof Map<?, ?> map) {
            JsonObject object = new JsonObject();
            map.forEach((key, element) -> object.add(String.valueOf(key), of(element)));
            return object;
        }
        return new JsonPrimitive(value.toString());
    }

    static String[] words(JsonElement array) {
        return array.getAsJsonArray().asList().stream().map(JsonElement::getAsString).toArray(String[]::new);
    }
}
