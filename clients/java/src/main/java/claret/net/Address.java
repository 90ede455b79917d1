package claret.net;

/** Host and port of a server. */
public record Address(String host, int port) {
    /** Parses {@code host:port}; an IPv6 address stands in brackets. */
    public static Address parse(String text) {
        int colon = text.lastIndexOf(':');
        if (colon < 1) {
            throw new IllegalArgumentException("an address is host:port, and not " + text);
        }
        String host = text.substring(0, colon).replaceAll("^\\[|\\]$", "");
        return new Address(host, Integer.parseInt(text.substring(colon + 1)));
    }
}
