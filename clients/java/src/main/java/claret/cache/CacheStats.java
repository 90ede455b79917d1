package claret.cache;

/**
 * Numbers since the beginning of a cache: reads that sent no request, because the reply was there or
 * under way; the other reads; and replies that were kept, until their key was written or the connection
 * was lost.
 */
public record CacheStats(long hits, long misses, long dropped) {}
