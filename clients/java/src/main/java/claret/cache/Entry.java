package claret.cache;

import java.util.List;
import java.util.concurrent.CompletableFuture;

/** A request under way, whose reply is kept afterwards. */
final class Entry {
    /** In place of a reply: the connection was lost. */
    static final Object LOST = new Object();

    final List<String> words;

    /** Reply, which may be an error, or {@link #LOST}. */
    final CompletableFuture<Object> reply = new CompletableFuture<>();

    Entry(List<String> words) {
        this.words = words;
    }

    String key() {
        return words.get(1);
    }
}
