package claret.lock;

import java.net.InetAddress;
import java.net.UnknownHostException;

/** The name under which the server shows a holder that was given none. */
final class Owner {
    /** Host and process; looked up once, as a name server may be asked for it. */
    static final String DEFAULT = host() + ":" + ProcessHandle.current().pid();

    private Owner() {}

    private static String host() {
        try {
            return InetAddress.getLocalHost().getHostName();
        } catch (UnknownHostException unknown) {
            return "java";
        }
    }
}
