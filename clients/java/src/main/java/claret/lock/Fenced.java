package claret.lock;

import claret.Reads;
import claret.Writes;
import claret.wire.Translate;
import claret.wire.Wire;
import claret.wire.Words;

/**
 * Commands under a lock's fencing token, on keys of one hash slot. Each throws {@link
 * LockLostException}, and changes nothing, if a later holder of the lock has written there.
 */
public final class Fenced implements Reads, Writes {
    private final Wire wire;
    private final Held lock;

    /** Commands under a lock's token; see {@link claret.Claret#fenced}. */
    public Fenced(Wire wire, Held lock) {
        this.wire = wire;
        this.lock = lock;
    }

    @Override
    public Object ask(String... words) {
        Words.inside(words);
        String[] fenced = Words.join(words, "FENCE", lock.name(), Long.toString(lock.token()));
        return Translate.checked(wire.command(Words.checked(fenced)));
    }
}
