package claret.net;

/** Status replies that differ in meaning from a value with the same text. */
public final class Status {
    /** The reply to a command that is carried out with the commit; compared by identity. */
    @SuppressWarnings("StringOperationCanBeSimplified")
    public static final String QUEUED = new String("QUEUED");

    private Status() {}

    /** The reply for a status line. */
    public static String of(String line) {
        return line.equals(QUEUED) ? QUEUED : line;
    }
}
