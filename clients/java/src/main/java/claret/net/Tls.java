package claret.net;

import java.io.IOException;
import java.io.InputStream;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManagerFactory;

/** Encrypted connections. */
public final class Tls {
    private Tls() {}

    /**
     * Trusts the authorities of a file in PEM and no others; without a file ({@code null}), those of the
     * Java runtime.
     */
    public static TrustManagerFactory trust(Path authorities) {
        try {
            TrustManagerFactory trust =
                    TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
            trust.init(authorities == null ? null : storeOf(authorities));
            return trust;
        } catch (GeneralSecurityException | IOException error) {
            throw new IllegalArgumentException(
                    "the authorities cannot be read: " + error.getMessage(), error);
        }
    }

    private static KeyStore storeOf(Path authorities) throws GeneralSecurityException, IOException {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        try (InputStream text = Files.newInputStream(authorities)) {
            int count = 0;
            for (Certificate one : CertificateFactory.getInstance("X.509").generateCertificates(text)) {
                store.setCertificateEntry("authority-" + ++count, one);
            }
        }
        return store;
    }

    /** Encrypts a connected socket, and checks that the certificate is for the server's address. */
    static SSLSocket secured(Socket socket, Address address, TrustManagerFactory trust)
            throws GeneralSecurityException, IOException {
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, trust.getTrustManagers(), null);
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
