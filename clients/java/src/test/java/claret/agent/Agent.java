package claret.agent;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Does what the conformance stories ask for: requests on standard input, answers on standard output, a
 * JSON object on each line. Each request has a thread, so that one that waits holds up no other.
 */
public final class Agent {
    private final Gson gson = new GsonBuilder().serializeNulls().disableHtmlEscaping().create();
    private final PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    private final Map<Long, Thread> running = new ConcurrentHashMap<>();
    private final Deeds deeds = new Deeds();

    private Agent() {}

    /** Answers requests until the input ends. */
    public static void main(String[] arguments) throws IOException {
        Agent agent = new Agent();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            agent.begin(JsonParser.parseString(line).getAsJsonObject());
        }
        System.exit(0);
    }

    private void begin(JsonObject request) {
        long id = request.get("id").getAsLong();
        Thread thread = new Thread(() -> answer(id, request), "request-" + id);
        thread.setDaemon(true);
        if (request.get("do").getAsString().equals("cancel")) {
            Thread cancelled = running.get(request.get("request").getAsLong());
            if (cancelled != null) {
                cancelled.interrupt();
            }
            tell(id, "value", Json.of(null));
            return;
        }
        running.put(id, thread);
        thread.start();
    }

    private void answer(long id, JsonObject request) {
        try {
            JsonElement value = deeds.perform(id, request, at -> paused(id, at));
            tell(id, "value", value);
        } catch (InterruptedException interrupted) {
            tell(id, "error", Kinds.of(new claret.error.CancelledException("interrupted", false)));
        } catch (Exception error) {
            tell(id, "error", Kinds.of(error));
        } finally {
            running.remove(id);
        }
    }

    private void paused(long id, String at) {
        JsonObject event = new JsonObject();
        event.addProperty("id", id);
        event.addProperty("event", "paused");
        event.addProperty("at", at);
        print(event);
    }

    private void tell(long id, String what, JsonElement content) {
        JsonObject answer = new JsonObject();
        answer.addProperty("id", id);
        answer.add(what, content);
        print(answer);
    }

    private synchronized void print(JsonObject line) {
        out.println(gson.toJson(line));
        out.flush();
    }
}
