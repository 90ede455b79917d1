package claret.cache;

/**
 * How much a cache keeps: a number of replies, of which those not used for longest go first, and none
 * that is larger than some bytes. Immutable: each method returns a copy with one change.
 */
public record CacheOptions(int maxEntries, int maxReplyBytes) {
    private static final CacheOptions DEFAULTS = new CacheOptions(10_000, 64 * 1024);

    /** Checks the limits. */
    public CacheOptions {
        if (maxEntries < 1 || maxReplyBytes < 1) {
            throw new IllegalArgumentException("a limit of a cache is 1 at least");
        }
    }

    /** 10,000 replies of at most 64 KiB. */
    public static CacheOptions defaults() {
        return DEFAULTS;
    }

    /** Most replies that are kept. */
    public CacheOptions maxEntries(int count) {
        return new CacheOptions(count, maxReplyBytes);
    }

    /** Size above which a reply is not kept. */
    public CacheOptions maxReplyBytes(int bytes) {
        return new CacheOptions(maxEntries, bytes);
    }
}
