package claret.net;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.util.List;
import java.util.function.Consumer;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.JedisSocketFactory;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.util.RedisInputStream;

/** Connections over Jedis. */
public final class JedisDriver implements Driver {
    @Override
    public Connection open(Address address, Setup setup) {
        return Handshake.complete(new Link(new Channel(address, setup)), setup);
    }

    @Override
    public void close() {}

    /** Opens a socket of a channel: unlike others, an interrupted thread does not hang in it. */
    private static final class Channel implements JedisSocketFactory {
        private final Address address;
        private final int timeoutMs;
        private final Tls tls;
        private SocketChannel channel;

        Channel(Address address, Setup setup) {
            this.address = address;
            tls = setup.tls();
            timeoutMs = (int) Math.min(Integer.MAX_VALUE, setup.connectTimeout().toMillis());
        }

        @Override
        public Socket createSocket() {
            if (channel != null) {
                // Jedis would connect again, and send on without what was begun on the connection.
                throw new JedisConnectionException("the connection is closed");
            }
            try {
                channel = SocketChannel.open();
                channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
                channel.setOption(StandardSocketOptions.SO_KEEPALIVE, true);
                channel.socket().connect(new InetSocketAddress(address.host(), address.port()), timeoutMs);
                if (tls == null) {
                    return channel.socket();
                }
                channel.socket().setSoTimeout(Math.max(1, timeoutMs));
                return tls.secured(channel.socket(), address);
            } catch (IOException | GeneralSecurityException | RuntimeException error) {
                close();
                throw new JedisConnectionException(String.valueOf(error.getMessage()), error);
            }
        }

        /** Whether the server has neither closed the connection nor sent what was not asked for. */
        boolean isQuiet() {
            try {
                channel.configureBlocking(false);
                boolean quiet = channel.read(ByteBuffer.allocate(1)) == 0;
                channel.configureBlocking(true);
                return quiet;
            } catch (IOException closed) {
                return false;
            }
        }

        void close() {
            try {
                if (channel != null) {
                    channel.close();
                }
            } catch (IOException ignored) {
                // It is not used any more.
            }
        }
    }

    /** Jedis's connection, with replies that keep errors as values and tell sets and maps from lists. */
    private static final class Link extends redis.clients.jedis.Connection implements Greeted {
        private final Channel channel;
        private volatile long id;
        private volatile Consumer<List<?>> pushes = message -> {};

        Link(Channel channel) {
            super(channel);
            this.channel = channel;
        }

        @Override
        protected Object protocolRead(RedisInputStream stream) {
            return JedisReplies.read(stream, pushes);
        }

        @Override
        public void send(List<List<String>> commands) {
            try {
                checkInterrupt();
                for (List<String> words : commands) {
                    sendCommand(arguments(words));
                }
                flush();
            } catch (JedisException error) {
                throw failed(error);
            }
        }

        private static CommandArguments arguments(List<String> words) {
            byte[] name = words.get(0).getBytes(StandardCharsets.UTF_8);
            CommandArguments arguments = new CommandArguments(() -> name);
            words.subList(1, words.size()).forEach(arguments::add);
            return arguments;
        }

        @Override
        public Object receive(long waitMs) {
            try {
                checkInterrupt();
                setSoTimeout((int) Math.max(1, Math.min(Integer.MAX_VALUE, waitMs)));
                return readProtocolWithCheckingBroken();
            } catch (JedisException error) {
                throw failed(error);
            }
        }

        private void checkInterrupt() {
            if (Thread.currentThread().isInterrupted()) {
                throw new JedisConnectionException("interrupted");
            }
        }

        private RuntimeException failed(JedisException error) {
            close();
            return Greeted.failed(error);
        }

        @Override
        public void onPush(Consumer<List<?>> listener) {
            pushes = listener;
        }

        @Override
        public void greeted(long number) {
            id = number;
        }

        @Override
        public long id() {
            return id;
        }

        @Override
        public boolean isAlive() {
            return isConnected() && !isBroken() && channel.isQuiet();
        }

        @Override
        public void close() {
            setBroken();
            channel.close();
        }
    }
}
