package inventory;

import claret.Claret;
import claret.Deferred;
import claret.RunOptions;
import claret.Transaction;
import claret.error.RepeatedException;
import claret.error.UndoneException;
import claret.type.Type;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;

/**
 * Articles in stock, and orders that reserve several of them at once. What is reserved and not
 * bought in time comes back by itself: that is the work of the type {@code stock}.
 */
public final class Inventory {
    private final Claret db;
    private final Type stock;

    /** What there is of one article. */
    public record Shown(String article, long free, long sold) {}

    /** Defines the type {@code stock}, unless it is defined. */
    public Inventory(Claret db) throws IOException {
        this.db = db;
        try (InputStream file = Inventory.class.getResourceAsStream("/stock.type")) {
            stock = Type.parse(new String(file.readAllBytes(), StandardCharsets.UTF_8));
        }
        stock.define(db);
    }

    /** Adds so many of an article. */
    public void add(String article, long count) {
        // Not a single call: if the connection breaks, a run finds out whether it took effect.
        db.run(tx -> stock.deferred(tx, stockKey(article)).call("add", count));
    }

    /**
     * Reserves all articles of an order for some time, or none of them.
     *
     * <p>An order reserves once: true also if it has done so before.
     */
    public boolean reserve(String order, SortedMap<String, Long> articles, Duration time) {
        // All ask in the order of names, so that no two wait for each other's articles.
        RunOptions options = RunOptions.strict().update().once("reserve-" + order);
        try {
            db.run(tx -> reserve(tx, order, articles, time), options);
            return true;
        } catch (RepeatedException before) {
            return true;
        } catch (SoldOut none) {
            return false;
        }
    }

    private Void reserve(
            Transaction tx, String order, SortedMap<String, Long> articles, Duration time)
            throws SoldOut {
        for (Map.Entry<String, Long> wanted : articles.entrySet()) {
            // The answer stays true until the commit.
            Object has = stock.on(tx, stockKey(wanted.getKey())).call("has", wanted.getValue());
            if (!has.equals(1L)) {
                // Thrown and not returned: nothing takes effect, and the order may try again.
                throw new SoldOut();
            }
        }
        articles.forEach(
                (article, count) -> {
                    stock.deferred(tx, stockKey(article))
                            .call("reserve", order, count, time.toMillis());
                    tx.hset(orderKey(order), article, Long.toString(count));
                });
        return null;
    }

    /**
     * Buys what an order has reserved: all of it, or nothing if a reservation has ended.
     *
     * <p>An order is bought once: true also if it has been bought before.
     */
    public boolean buy(String order) {
        Map<String, String> articles = articles(order);
        try {
            db.run(
                    tx -> {
                        articles.forEach(
                                (article, count) -> {
                                    stock.deferred(tx, stockKey(article)).call("buy", order);
                                    tx.counterAdd(soldKey(article), Long.parseLong(count));
                                });
                        return null;
                    },
                    RunOptions.strict().once("buy-" + order));
            return true;
        } catch (RepeatedException before) {
            return true;
        } catch (UndoneException refused) {
            // A reservation that has ended is GONE, which undoes the purchase of the others too.
            if (refused.getMessage().contains("GONE")) {
                return false;
            }
            throw refused;
        }
    }

    /** Gives back what an order has reserved. False if that has ended or was bought. */
    public boolean release(String order) {
        Map<String, String> articles = articles(order);
        List<Deferred<Object>> released = db.run(tx -> release(tx, order, articles));
        return released.stream().allMatch(reply -> reply.value().equals(1L));
    }

    private List<Deferred<Object>> release(
            Transaction tx, String order, Map<String, String> articles) {
        List<Deferred<Object>> replies = new ArrayList<>();
        for (Map.Entry<String, String> held : articles.entrySet()) {
            Type.DeferredValue value = stock.deferred(tx, stockKey(held.getKey()));
            replies.add(value.call("release", order, held.getValue()));
        }
        return replies;
    }

    /** What there is of some articles, at one instant. */
    public List<Shown> show(List<String> articles) {
        return db.snapshot(
                reads -> {
                    List<Shown> shown = new ArrayList<>();
                    for (String article : articles) {
                        long free = (Long) stock.on(reads, stockKey(article)).call("free");
                        shown.add(new Shown(article, free, reads.counterGet(soldKey(article))));
                    }
                    return shown;
                });
    }

    /** What an order has reserved; that never changes. */
    private SortedMap<String, String> articles(String order) {
        Map<String, String> articles = db.hgetAll(orderKey(order));
        if (articles.isEmpty()) {
            throw new IllegalArgumentException("there is no order " + order);
        }
        return new TreeMap<>(articles);
    }

    private static String stockKey(String article) {
        return "stock:" + article;
    }

    private static String soldKey(String article) {
        return "sold:" + article;
    }

    private static String orderKey(String order) {
        return "order:" + order;
    }

    private static final class SoldOut extends Exception {
        private static final long serialVersionUID = 1L;
    }
}
