package claret;

import claret.net.Address;
import claret.net.Driver;
import claret.net.Setup;
import claret.net.Tls;
import claret.wire.Words;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/** Options of {@link Claret#connect}. */
public final class Options {
    final List<Address> addresses;
    final Driver driver;
    final Setup setup;
    final int transactionsMax;
    final Duration timeout;

    private Options(Builder from) {
        boolean none = from.addresses.isEmpty();
        addresses = none ? List.of(new Address("127.0.0.1", 6379)) : List.copyOf(from.addresses);
        driver = from.driver == null ? Driver.available() : from.driver;
        setup =
                new Setup(
                        from.user,
                        from.password,
                        from.passwordFile,
                        from.database,
                        from.clientName,
                        from.connectTimeout,
                        from.tls);
        transactionsMax = from.transactionsMax;
        timeout = from.timeout;
        Words.checkTimes(timeout, from.connectTimeout);
    }

    /** Begins to collect options. */
    public static Builder builder() {
        return new Builder();
    }

    /** Collects options. */
    public static final class Builder {
        private final List<Address> addresses = new ArrayList<>();
        private Driver driver;
        private String user;
        private String password;
        private Path passwordFile;
        private Tls tls;
        private int database;
        private String clientName;
        private Duration connectTimeout = Duration.ofSeconds(5);
        private Duration timeout = Duration.ofSeconds(60);
        private int transactionsMax = 16;

        private Builder() {}

        /**
         * Adds a server as {@code host:port}. The first that answers is used, and the next one when it
         * fails. Default: {@code 127.0.0.1:6379}.
         */
        public Builder address(String address) {
            addresses.add(Address.parse(address));
            return this;
        }

        /** The library to connect with. Default: the one on the class path, Jedis if both are. */
        public Builder driver(Driver used) {
            driver = used;
            return this;
        }

        /** User and password; without them the connection is that of the default user. */
        public Builder credentials(String user, String password) {
            this.user = user;
            this.password = password;
            passwordFile = null;
            return this;
        }

        /** User, and a file whose first line is the password: it is read for each connection. */
        public Builder passwordFile(String user, Path file) {
            this.user = user;
            password = null;
            passwordFile = file;
            return this;
        }

        /** Encrypts all connections, to servers whose certificates the Java runtime trusts. */
        public Builder tls() {
            tls = Tls.trusting(null);
            return this;
        }

        /** Encrypts all connections, to servers whose certificates authorities of a PEM file have signed. */
        public Builder tls(Path authorities) {
            tls = Tls.trusting(authorities);
            return this;
        }

        /**
         * As {@link #tls(Path)}, and shows a certificate to servers that ask for one. It is in a file in
         * PEM, its key in another one, in PKCS #8.
         */
        public Builder tls(Path authorities, Path certificate, Path key) {
            tls = Tls.trusting(authorities).showing(certificate, key);
            return this;
        }

        /** Number of the database. Default: 0. */
        public Builder database(int number) {
            database = number;
            return this;
        }

        /** Name that {@code CLIENT LIST} and {@code TXN HOLDERS} show. */
        public Builder clientName(String name) {
            clientName = name;
            return this;
        }

        /** Longest time to connect to a server. Default: 5 seconds. */
        public Builder connectTimeout(Duration time) {
            connectTimeout = time;
            return this;
        }

        /**
         * Longest wait for a reply, after which the connection counts as lost. Default: a minute. Waits
         * for locks and their like have their own limits.
         */
        public Builder timeout(Duration time) {
            timeout = time;
            return this;
        }

        /** Largest number of transactions and batches at a time; others wait in line. Default: 16. */
        public Builder transactionsMax(int count) {
            transactionsMax = count;
            return this;
        }

        /** The options. */
        public Options build() {
            return new Options(this);
        }
    }
}
