package claret.agent;

import claret.Deferred;
import claret.Transaction;
import claret.lock.Held;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.function.Consumer;
import java.util.function.Function;

/** The function of a transaction, as a list of steps. */
final class Body {
    private final JsonArray steps;
    private final Function<String, Held> locks;
    private final Consumer<String> paused;
    private final CountDownLatch resumed = new CountDownLatch(1);
    private Map<String, Object> variables = Map.of();
    private int attempts;
    private volatile boolean passed;

    Body(JsonArray steps, Function<String, Held> locks, Consumer<String> paused) {
        this.steps = steps;
        this.locks = locks;
        this.paused = paused;
    }

    void resume() {
        resumed.countDown();
    }

    int attempts() {
        return attempts;
    }

    /** Carries the steps out; the expression of the value is computed after the commit. */
    JsonElement run(Transaction tx) throws Kinds.BodyFailure, InterruptedException {
        attempts++;
        variables = new HashMap<>();
        for (JsonElement element : steps) {
            JsonObject step = element.getAsJsonObject();
            if (step.has("return")) {
                return step.get("return");
            }
            perform(step, tx);
        }
        return null;
    }

    private void perform(JsonObject step, Transaction tx) throws Kinds.BodyFailure, InterruptedException {
        if (step.has("ask")) {
            String[] words = words(step.getAsJsonArray("ask"));
            boolean update = step.has("update") && step.get("update").getAsBoolean();
            note(step, update ? tx.askForUpdate(words) : tx.ask(words));
        } else if (step.has("write")) {
            note(step, tx.write(words(step.getAsJsonArray("write"))));
        } else if (step.has("pause")) {
            pause(step.get("pause").getAsString());
        } else if (step.has("use")) {
            tx.write("SET", "used", String.valueOf(variables.get(step.get("use").getAsString())));
        } else if (step.has("require")) {
            tx.require(locks.apply(step.get("require").getAsString()));
        } else if (step.has("fail")) {
            throw new Kinds.BodyFailure(step.get("fail").getAsString());
        } else {
            throw new IllegalArgumentException("unknown step " + step);
        }
    }

    private void note(JsonObject step, Object value) {
        if (step.has("as")) {
            variables.put(step.get("as").getAsString(), value);
        }
    }

    private void pause(String at) throws InterruptedException {
        if (!passed) {
            passed = true;
            paused.accept(at);
            resumed.await();
        }
    }

    private String[] words(JsonArray expressions) {
        return expressions.asList().stream().map(word -> String.valueOf(valueOf(word))).toArray(String[]::new);
    }

    /** The value of an expression; that of a deferred reply is the reply. */
    Object valueOf(JsonElement expression) {
        if (expression == null || expression.isJsonNull()) {
            return null;
        }
        if (expression.isJsonArray()) {
            return Json.of(expression.getAsJsonArray().asList().stream().map(one -> Json.of(valueOf(one))).toList());
        }
        if (!expression.isJsonObject()) {
            return expression.getAsJsonPrimitive().isNumber() ? (Object) expression.getAsLong() : expression.getAsString();
        }
        JsonObject object = expression.getAsJsonObject();
        if (object.has("var")) {
            Object value = variables.get(object.get("var").getAsString());
            return value instanceof Deferred<?> deferred ? deferred.value() : value;
        }
        long sum = 0;
        for (JsonElement term : object.getAsJsonArray("add")) {
            Object value = valueOf(term);
            sum += value == null ? 0 : Long.parseLong(value.toString());
        }
        return Long.toString(sum);
    }
}
