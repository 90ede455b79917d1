package claret.lock;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.List;

/** The name under which the server shows a holder that was given none. */
final class Owner {
    /** Host and process; looked up once, as a name server may be asked for it. */
    static final String DEFAULT = host() + ":" + ProcessHandle.current().pid();

    private Owner() {}

    /** Words of a wait; {@code null}: it waits for ever, and has the default owner. */
    static List<String> waiting(Long waitMs, String owner) {
        List<String> words = new ArrayList<>(List.of("OWNER", owner == null ? DEFAULT : owner));
        if (waitMs != null) {
            // A request that waits needs a time, however short.
            words.addAll(List.of("TIMEOUT", Long.toString(Math.max(1, waitMs))));
        }
        return words;
    }

    private static String host() {
        try {
            return InetAddress.getLocalHost().getHostName();
        } catch (UnknownHostException unknown) {
            return "java";
        }
    }
}
