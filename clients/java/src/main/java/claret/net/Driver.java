package claret.net;

/** A library that connects to servers. */
public interface Driver extends AutoCloseable {
    /**
     * Opens a connection.
     *
     * @throws claret.error.ConnectionException if the server does not answer
     */
    Connection open(Address address, Setup setup);

    /** Frees what the driver's connections share. */
    @Override
    void close();

    /** The driver of the library that is on the class path: Jedis if both are. */
    static Driver available() {
        for (String name : new String[] {"redis.clients.jedis.Connection", "io.lettuce.core.RedisClient"}) {
            try {
                Class.forName(name, false, Driver.class.getClassLoader());
                return name.contains("jedis") ? new JedisDriver() : new LettuceDriver();
            } catch (ClassNotFoundException absent) {
                continue;
            }
        }
        throw new IllegalStateException("neither Jedis nor Lettuce is on the class path: add one of them");
    }
}
