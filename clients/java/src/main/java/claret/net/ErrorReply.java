package claret.net;

/** An error reply of the server, as a value: its code and the text behind it. */
public record ErrorReply(String code, String text) {
    /** Splits the line of an error reply. */
    public static ErrorReply parse(String line) {
        int space = line.indexOf(' ');
        String code = space < 0 ? line : line.substring(0, space);
        // The code of a general error says nothing, whereas an unknown one belongs to the message.
        boolean bare = space < 0 || !code.equals(code.toUpperCase(java.util.Locale.ROOT));
        return bare ? new ErrorReply("", line) : new ErrorReply(code, line);
    }
}
