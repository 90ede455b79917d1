package claret.agent;

import claret.Batch;
import claret.Claret;
import claret.Dispatch;
import claret.Options;
import claret.RunOptions;
import claret.cache.Cache;
import claret.cache.CacheOptions;
import claret.cache.CacheStats;
import claret.lock.Election;
import claret.lock.Held;
import claret.lock.Lock;
import claret.lock.LockOptions;
import claret.lock.RetainedLock;
import claret.lock.RetainedOptions;
import claret.lock.Section;
import claret.net.JedisDriver;
import claret.net.LettuceDriver;
import claret.type.Type;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;

/** The requests of the stories, by the client's public interface. */
final class Deeds {
    private static final List<String> OFFERS =
            List.of(
                    "hello", "open", "close", "command", "run", "resume", "cancel", "batch", "dispatch", "lock",
                    "unlock", "held", "fenced", "stop_renewing", "campaign", "proclaim", "resign", "leader",
                    "observe", "barrier", "retained", "enter", "give_back", "define", "operate", "strict",
                    "update", "readonly", "attempts_max", "deadline", "once", "guards", "shared", "limit",
                    "owner", "detect", "require", "addresses", "section", "near", "next", "tls", "password_file",
                    "certificate", "closed", "migrate", "cache", "cached", "cache_stats",
                    "close_cache");

    private final Map<String, Claret> clients = new ConcurrentHashMap<>();
    private final Map<String, Held> held = new ConcurrentHashMap<>();
    private final Map<String, Claret> clientOf = new ConcurrentHashMap<>();
    private final Map<String, RetainedLock> retained = new ConcurrentHashMap<>();
    private final Map<String, Cache> caches = new ConcurrentHashMap<>();
    private final Map<Long, Body> bodies = new ConcurrentHashMap<>();

    JsonElement perform(long id, JsonObject request, Consumer<String> paused) throws Exception {
        return Json.of(
                switch (text(request, "do")) {
                    case "hello" -> Map.of("client", "java", "offers", OFFERS);
                    case "open" -> open(request);
                    case "close" -> close(client(request));
                    case "command" -> client(request).ask(Json.words(request.get("words")));
                    case "run" -> run(id, request, paused);
                    case "resume" -> resume(request.get("request").getAsLong());
                    case "batch" -> batch(request);
                    case "dispatch" -> dispatch(request);
                    case "lock" -> lock(request);
                    case "unlock" -> unlock(held.remove(text(request, "lock")));
                    case "held" -> held.get(text(request, "lock")).isHeld();
                    case "fenced" -> fenced(request);
                    case "stop_renewing" -> stopRenewing(held.get(text(request, "lock")));
                    case "campaign" -> campaign(request);
                    case "proclaim" -> proclaim(request);
                    case "resign" -> resign(held.remove(text(request, "election")));
                    case "leader" -> client(request).election(text(request, "name")).leader().map(Election.Leader::value);
                    case "observe" -> observe(request);
                    case "barrier" -> barrier(request);
                    case "retained" -> retain(request);
                    case "enter" -> enter(request);
                    case "give_back" -> giveBack(retained.remove(text(request, "retained")));
                    case "define" -> Type.parse(text(request, "definition")).define(client(request));
                    case "section" -> section(request);
                    case "migrate" -> Type.parse(text(request, "definition")).migrate(client(request));
                    case "operate" -> operate(request);
                    case "cache" -> cache(request);
                    case "cached" -> cached(request);
                    case "cache_stats" -> cacheStats(caches.get(text(request, "cache")).stats());
                    case "close_cache" -> closeCache(caches.get(text(request, "cache")));
                    default -> throw new IllegalArgumentException("unknown request " + request);
                });
    }

    private static String text(JsonObject request, String name) {
        return request.get(name).getAsString();
    }

    private static Path path(JsonObject request, String name) {
        return Path.of(text(request, name));
    }

    private static Duration time(JsonObject request, String name) {
        return request.has(name) ? Duration.ofMillis(request.get(name).getAsLong()) : null;
    }

    private static boolean isSet(JsonObject request, String name) {
        return request.has(name) && request.get(name).getAsBoolean();
    }

    private Claret client(JsonObject request) {
        return clients.get(text(request, "client"));
    }

    private Object open(JsonObject request) {
        Options.Builder options = Options.builder().connectTimeout(Duration.ofSeconds(2));
        request.getAsJsonArray("addresses").forEach(address -> options.address(address.getAsString()));
        boolean lettuce = "lettuce".equals(System.getenv("CLARET_DRIVER"));
        if (request.has("certificate")) {
            options.tls(path(request, "tls"), path(request, "certificate"), path(request, "certificate_key"));
        } else if (request.has("tls")) {
            options.tls(path(request, "tls"));
        }
        if (request.has("password_file")) {
            options.passwordFile(text(request, "username"), path(request, "password_file"));
        }
        options.driver(lettuce ? new LettuceDriver() : new JedisDriver());
        clients.put(text(request, "client"), Claret.connect(options.build()));
        return null;
    }

    private static Object close(Claret client) {
        if (client != null) {
            client.close();
        }
        return null;
    }

    private Object resume(long request) {
        bodies.get(request).resume();
        return null;
    }

    private Object run(long id, JsonObject request, Consumer<String> paused) throws Exception {
        Body body = new Body(request.getAsJsonArray("body"), held::get, paused);
        bodies.put(id, body);
        JsonElement value = client(request).run(body::run, runOptions(request.getAsJsonObject("options")));
        JsonObject answer = new JsonObject();
        answer.add("value", Json.of(body.valueOf(value)));
        answer.addProperty("attempts", body.attempts());
        return answer;
    }

    private static RunOptions runOptions(JsonObject given) {
        JsonObject asked = given == null ? new JsonObject() : given;
        RunOptions options = asked.has("strict") && !isSet(asked, "strict") ? RunOptions.lenient() : RunOptions.strict();
        options = isSet(asked, "update") ? options.update() : options;
        options = isSet(asked, "readonly") ? options.readOnly() : options;
        options = asked.has("attempts_max") ? options.attemptsMax(asked.get("attempts_max").getAsInt()) : options;
        options = asked.has("deadline") ? options.deadline(time(asked, "deadline")) : options;
        return asked.has("once") ? options.once(text(asked, "once")) : options;
    }

    private Object batch(JsonObject request) {
        Batch batch = client(request).batch();
        request.getAsJsonArray("commands").forEach(words -> batch.write(Json.words(words)));
        if (request.has("guards")) {
            for (JsonElement guard : request.getAsJsonArray("guards")) {
                JsonArray pair = guard.getAsJsonArray();
                JsonElement value = pair.get(1);
                batch.guard(pair.get(0).getAsString(), value.isJsonNull() ? null : value.getAsString());
            }
        }
        return batch.execute();
    }

    private Object dispatch(JsonObject request) {
        List<CompletableFuture<Object>> futures = new ArrayList<>();
        try (Dispatch dispatch = client(request).dispatch()) {
            request.getAsJsonArray("commands").forEach(words -> futures.add(dispatch.send(Json.words(words))));
        }
        return futures.stream().map(Deeds::reply).toList();
    }

    private static Object reply(CompletableFuture<Object> future) {
        try {
            return Json.of(future.join());
        } catch (CompletionException error) {
            JsonObject failed = new JsonObject();
            failed.add("error", Kinds.of(error.getCause()));
            return failed;
        }
    }

    private Object cache(JsonObject request) {
        CacheOptions options = CacheOptions.defaults();
        options = request.has("entries") ? options.maxEntries(request.get("entries").getAsInt()) : options;
        boolean limited = request.has("reply_bytes");
        options = limited ? options.maxReplyBytes(request.get("reply_bytes").getAsInt()) : options;
        caches.put(text(request, "as"), client(request).cache(options));
        return null;
    }

    private Object cached(JsonObject request) {
        List<String> words = List.of(Json.words(request.get("words")));
        Cache cache = caches.get(text(request, "cache"));
        if (words.size() < 2) {
            // It gets an empty key, and is refused.
            return cache.read(words.get(0), "");
        }
        String[] arguments = words.subList(2, words.size()).toArray(new String[0]);
        return cache.read(words.get(0), words.get(1), arguments);
    }

    private static Object cacheStats(CacheStats stats) {
        return Map.of("hits", stats.hits(), "misses", stats.misses(), "dropped", stats.dropped());
    }

    private static Object closeCache(Cache cache) {
        cache.close();
        return null;
    }

    private static LockOptions lockOptions(JsonObject request) {
        LockOptions options = LockOptions.defaults();
        options = request.has("lease") ? options.lease(time(request, "lease")) : options;
        options = request.has("timeout") ? options.timeout(time(request, "timeout")) : options;
        options = request.has("owner") ? options.owner(text(request, "owner")) : options;
        options = isSet(request, "shared") ? options.shared() : options;
        options = request.has("limit") ? options.limit(request.get("limit").getAsInt()) : options;
        options = isSet(request, "near") ? options.near() : options;
        options = isSet(request, "next") ? options.next() : options;
        return isSet(request, "detect") ? options.detect(text(request, "owner")) : options;
    }

    private Object keep(JsonObject request, Claret client, Held lock) {
        held.put(text(request, "as"), lock);
        if (client != null) {
            clientOf.put(text(request, "as"), client);
        }
        return Map.of("token", lock.token());
    }

    private Object lock(JsonObject request) {
        Claret client = client(request);
        return keep(request, client, client.lock(text(request, "name"), lockOptions(request)));
    }

    private Object section(JsonObject request) {
        Section section = client(request).section(text(request, "name"), lockOptions(request));
        Map<String, Object> answer = new HashMap<>();
        answer.put("value", section.ask(Json.words(request.get("words"))));
        answer.put("token", section.token().getAsLong());
        return answer;
    }

    private static Object unlock(Held lock) {
        if (lock instanceof Lock known) {
            known.release();
        } else if (lock instanceof RetainedLock.Stay stay) {
            stay.leave();
        }
        return null;
    }

    private Object fenced(JsonObject request) {
        String lock = text(request, "lock");
        return clientOf.get(lock).fenced(held.get(lock)).ask(Json.words(request.get("words")));
    }

    private static Object stopRenewing(Held lock) {
        if (lock instanceof Lock known) {
            known.stopRenewing();
        } else if (lock instanceof Election.Leadership leadership) {
            leadership.stopRenewing();
        }
        return null;
    }

    private Object campaign(JsonObject request) {
        Claret client = client(request);
        Election election = client.election(text(request, "name"));
        return keep(request, client, election.campaign(text(request, "value"), lockOptions(request)));
    }

    private Object proclaim(JsonObject request) {
        ((Election.Leadership) held.get(text(request, "election"))).proclaim(text(request, "value"));
        return null;
    }

    private static Object resign(Held leadership) {
        ((Election.Leadership) leadership).resign();
        return null;
    }

    private Object observe(JsonObject request) {
        Iterator<Optional<Election.Leader>> leaders = client(request).election(text(request, "name")).observe(null);
        List<String> values = new ArrayList<>();
        for (int left = request.get("count").getAsInt(); left > 0; left--) {
            values.add(leaders.next().map(Election.Leader::value).orElse(null));
        }
        return values;
    }

    private Object barrier(JsonObject request) {
        int parties = request.get("parties").getAsInt();
        return client(request).barrier(text(request, "name"), parties).await(time(request, "timeout"));
    }

    private Object retain(JsonObject request) {
        RetainedOptions options = RetainedOptions.defaults();
        options = request.has("lease") ? options.lease(time(request, "lease")) : options;
        String as = text(request, "as");
        retained.put(as, client(request).retained(text(request, "name"), options));
        clientOf.put(as, client(request));
        return null;
    }

    private Object enter(JsonObject request) {
        String name = text(request, "retained");
        return keep(request, clientOf.get(name), retained.get(name).enter(time(request, "timeout")));
    }

    private static Object giveBack(RetainedLock lock) {
        lock.close();
        return null;
    }

    private Object operate(JsonObject request) {
        Type type = Type.parse(text(request, "definition"));
        Object[] arguments = request.has("arguments") ? Json.words(request.get("arguments")) : new Object[0];
        return type.on(client(request), text(request, "key")).call(text(request, "operation"), arguments);
    }
}
