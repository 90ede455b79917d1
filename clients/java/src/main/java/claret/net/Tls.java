package claret.net;

import java.io.IOException;
import java.io.InputStream;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.Collection;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManagerFactory;

/**
 * Encrypted connections: whom they trust, and the certificate that they show ({@code null}: none).
 */
public record Tls(TrustManagerFactory trust, KeyManagerFactory own) {
    private static final Pattern KEY =
            Pattern.compile("-----BEGIN PRIVATE KEY-----([^-]+)-----END PRIVATE KEY-----");

    /**
     * Trusts the authorities of a file in PEM and no others; without a file ({@code null}), those of the
     * Java runtime.
     */
    public static Tls trusting(Path authorities) {
        try {
            TrustManagerFactory trust =
                    TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
            trust.init(authorities == null ? null : storeOf(authorities));
            return new Tls(trust, null);
        } catch (GeneralSecurityException | IOException error) {
            throw new IllegalArgumentException(
                    "the authorities cannot be read: " + error.getMessage(), error);
        }
    }

    /** Shows a certificate, with those that lead to an authority behind it; both files are in PEM. */
    public Tls showing(Path certificate, Path key) {
        try {
            Certificate[] chain = certificatesOf(certificate).toArray(new Certificate[0]);
            if (chain.length == 0) {
                throw new GeneralSecurityException("there is no certificate in " + certificate);
            }
            KeyStore store = emptyStore();
            char[] noPassword = new char[0];
            store.setKeyEntry("own", keyOf(key, chain[0]), noPassword, chain);
            KeyManagerFactory keys =
                    KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
            keys.init(store, noPassword);
            return new Tls(trust, keys);
        } catch (GeneralSecurityException | IOException error) {
            throw new IllegalArgumentException(
                    "the certificate cannot be read: " + error.getMessage(), error);
        }
    }

    private static PrivateKey keyOf(Path file, Certificate certificate)
            throws GeneralSecurityException, IOException {
        Matcher found = KEY.matcher(Files.readString(file));
        if (!found.find()) {
            throw new GeneralSecurityException(
                    file + " has no key in PKCS #8, as `openssl pkcs8 -topk8 -nocrypt` writes it");
        }
        byte[] encoded = Base64.getMimeDecoder().decode(found.group(1));
        return KeyFactory.getInstance(certificate.getPublicKey().getAlgorithm())
                .generatePrivate(new PKCS8EncodedKeySpec(encoded));
    }

    private static KeyStore emptyStore() throws GeneralSecurityException, IOException {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        return store;
    }

    private static KeyStore storeOf(Path authorities) throws GeneralSecurityException, IOException {
        KeyStore store = emptyStore();
        int count = 0;
        for (Certificate one : certificatesOf(authorities)) {
            store.setCertificateEntry("authority-" + ++count, one);
        }
        return store;
    }

    private static Collection<? extends Certificate> certificatesOf(Path file)
            throws GeneralSecurityException, IOException {
        try (InputStream text = Files.newInputStream(file)) {
            return CertificateFactory.getInstance("X.509").generateCertificates(text);
        }
    }

    /** Encrypts a connected socket, and checks that the certificate is for the server's address. */
    SSLSocket secured(Socket socket, Address address) throws GeneralSecurityException, IOException {
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(own == null ? null : own.getKeyManagers(), trust.getTrustManagers(), null);
        SSLSocket secured =
                (SSLSocket)
                        context.getSocketFactory().createSocket(socket, address.host(), address.port(), true);
        SSLParameters parameters = secured.getSSLParameters();
        parameters.setEndpointIdentificationAlgorithm("HTTPS");
        secured.setSSLParameters(parameters);
        secured.startHandshake();
        return secured;
    }
}
