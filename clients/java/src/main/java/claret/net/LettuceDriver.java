package claret.net;

import claret.error.ConnectionException;
import io.lettuce.core.ClientOptions;
import io.lettuce.core.ClientOptions.DisconnectedBehavior;
import io.lettuce.core.MaintNotificationsConfig;
import io.lettuce.core.RedisChannelHandler;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisConnectionStateListener;
import io.lettuce.core.RedisException;
import io.lettuce.core.RedisURI;
import io.lettuce.core.SocketOptions;
import io.lettuce.core.SslOptions;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.protocol.AsyncCommand;
import io.lettuce.core.protocol.Command;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import io.lettuce.core.protocol.ProtocolVersion;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;

/** Connections over Lettuce. */
public final class LettuceDriver implements Driver {
    // The same for all connections, each of which has a limit of its own when it is opened.
    private static final Duration CONNECT_TIMEOUT_MAX = Duration.ofHours(1);

    private final RedisClient client = RedisClient.create();

    /** Creates a client of Lettuce. */
    public LettuceDriver() {}

    private static ClientOptions options(Tls tls) {
        // A connection that comes back by itself would be one without the transaction begun on it.
        ClientOptions.Builder options =
                ClientOptions.builder()
                        .autoReconnect(false)
                        .disconnectedBehavior(DisconnectedBehavior.REJECT_COMMANDS)
                        .protocolVersion(ProtocolVersion.RESP3)
                        .maintNotificationsConfig(MaintNotificationsConfig.disabled())
                        .socketOptions(
                                SocketOptions.builder()
                                        .connectTimeout(CONNECT_TIMEOUT_MAX)
                                        .keepAlive(true)
                                        .build());
        if (tls != null) {
            SslOptions.Builder encrypted =
                    SslOptions.builder().jdkSslProvider().trustManager(tls.trust());
            if (tls.own() != null) {
                encrypted.keyManager(tls.own());
            }
            options.sslOptions(encrypted.build());
        }
        return options.build();
    }

    /** Begins to connect. The options belong to the client: they are changed for one at a time. */
    private synchronized CompletableFuture<StatefulRedisConnection<String, String>> connecting(
            RedisURI uri, Tls tls) {
        client.setOptions(options(tls));
        return client.connectAsync(StringCodec.UTF8, uri).toCompletableFuture();
    }

    @Override
    public Connection open(Address address, Setup setup) {
        CompletableFuture<StatefulRedisConnection<String, String>> opening = null;
        try {
            RedisURI.Builder uri =
                    RedisURI.builder()
                            .withHost(address.host())
                            .withPort(address.port())
                            .withTimeout(setup.connectTimeout());
            if (setup.password() != null) {
                String user = setup.user() == null ? "default" : setup.user();
                uri.withAuthentication(user, setup.password().toCharArray());
            }
            uri.withSsl(setup.tls() != null);
            opening = connecting(uri.build(), setup.tls());
            long waitMs = setup.connectTimeout().toMillis();
            return Handshake.complete(new Link(opening.get(waitMs, TimeUnit.MILLISECONDS)), setup);
        } catch (RedisException | InterruptedException | ExecutionException | TimeoutException error) {
            if (opening != null) {
                opening.thenAccept(StatefulRedisConnection::closeAsync);
            }
            throw failed(error);
        }
    }

    @Override
    public void close() {
        client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
    }

    private static RuntimeException failed(Exception error) {
        if (error instanceof InterruptedException) {
            Thread.currentThread().interrupt();
        }
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            if (cause instanceof RedisCommandExecutionException refused) {
                return Greeted.refused(ErrorReply.parse(refused.getMessage()));
            }
        }
        return Greeted.failed(error instanceof ExecutionException ? error.getCause() : error);
    }

    private record Name(String text) implements ProtocolKeyword {
        @Override
        public byte[] getBytes() {
            return text.getBytes(StandardCharsets.UTF_8);
        }

        @Override
        public String toString() {
            return text;
        }
    }

    private static final class Link implements Greeted {
        private final StatefulRedisConnection<String, String> connection;
        private final BlockingQueue<AsyncCommand<String, String, Object>> waiting =
                new LinkedBlockingQueue<>();

        private volatile long id;

        Link(StatefulRedisConnection<String, String> connection) {
            this.connection = connection;
            connection.addListener(
                    new RedisConnectionStateListener() {
                        @Override
                        public void onRedisDisconnected(RedisChannelHandler<?, ?> lost) {
                            // Wakes a thread that waits for a command to be sent.
                            AsyncCommand<String, String, Object> none = asked(List.of("PING"));
                            none.completeExceptionally(new RedisException("the connection is closed"));
                            waiting.add(none);
                        }
                    });
        }

        @Override
        public void send(List<List<String>> commands) {
            List<AsyncCommand<String, String, Object>> asked = commands.stream().map(Link::asked).toList();
            waiting.addAll(asked);
            try {
                connection.dispatch(asked);
            } catch (RedisException error) {
                asked.forEach(command -> command.completeExceptionally(error));
                close();
                throw failed(error);
            }
        }

        private static AsyncCommand<String, String, Object> asked(List<String> words) {
            CommandArgs<String, String> arguments = new CommandArgs<>(StringCodec.UTF8);
            words.subList(1, words.size()).forEach(arguments::add);
            // Lettuce treats MULTI, EXEC and others in its own way, by their names in capitals.
            Name name = new Name(words.get(0).toLowerCase(Locale.ROOT));
            return new AsyncCommand<>(new Command<>(name, new LettuceReply(), arguments));
        }

        @Override
        public Object receive(long waitMs) {
            try {
                long endNs = System.nanoTime() + waitMs * 1_000_000;
                // A thread may wait for the reply before another one sends the command.
                AsyncCommand<String, String, Object> next = waiting.poll(waitMs, TimeUnit.MILLISECONDS);
                if (next == null) {
                    throw new TimeoutException();
                }
                return next.get(Math.max(1, (endNs - System.nanoTime()) / 1_000_000), TimeUnit.MILLISECONDS);
            } catch (InterruptedException | ExecutionException | TimeoutException error) {
                close();
                if (error instanceof TimeoutException) {
                    throw new ConnectionException("no reply within " + waitMs + " ms", error);
                }
                throw failed(error);
            }
        }

        @Override
        public void onPush(Consumer<List<?>> listener) {
            // The library reads pushes and replies in one thread, in their order.
            connection.addListener(
                    message -> listener.accept(message.getContent(StringCodec.UTF8::decodeKey)));
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
            return connection.isOpen();
        }

        @Override
        public void close() {
            if (!connection.isOpen()) {
                return;
            }
            if (Thread.currentThread().isInterrupted()) {
                connection.closeAsync();
            } else {
                connection.close();
            }
        }
    }
}
