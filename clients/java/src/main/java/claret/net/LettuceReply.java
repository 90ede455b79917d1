package claret.net;

import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.CommandOutput;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.Map;

/** Builds a reply from what Lettuce reads, with errors as values. */
final class LettuceReply extends CommandOutput<String, String, Object> {
    private final Deque<Frame> open = new ArrayDeque<>();
    private boolean answered;

    LettuceReply() {
        super(StringCodec.UTF8, null);
    }

    /** A list, set or map that lacks some elements. */
    private static final class Frame {
        final Object whole;
        int missing;
        Object key;
        boolean hasKey;

        Frame(Object whole, int missing) {
            this.whole = whole;
            this.missing = missing;
        }

        @SuppressWarnings("unchecked")
        void add(Object value) {
            missing--;
            if (whole instanceof Collection) {
                ((Collection<Object>) whole).add(value);
            } else if (hasKey) {
                ((Map<Object, Object>) whole).put(key, value);
                hasKey = false;
            } else {
                key = value;
                hasKey = true;
            }
        }
    }

    private void add(Object value) {
        Object whole = value;
        while (!open.isEmpty()) {
            Frame frame = open.peek();
            frame.add(whole);
            if (frame.missing > 0) {
                return;
            }
            whole = open.pop().whole;
        }
        output = whole;
        answered = true;
    }

    @Override
    public Object get() {
        // Lettuce leaves out the status QUEUED.
        return answered ? output : Status.QUEUED;
    }

    private void begin(Object whole, int count) {
        if (count < 0) {
            add(null);
        } else if (count == 0) {
            add(whole);
        } else {
            open.push(new Frame(whole, count));
        }
    }

    private static String text(ByteBuffer bytes) {
        return bytes == null ? null : StandardCharsets.UTF_8.decode(bytes).toString();
    }

    @Override
    public void set(ByteBuffer bytes) {
        add(text(bytes));
    }

    @Override
    public void setSingle(ByteBuffer bytes) {
        add(bytes == null ? null : Status.of(text(bytes)));
    }

    @Override
    public void set(long integer) {
        add(integer);
    }

    @Override
    public void set(double number) {
        add(number);
    }

    @Override
    public void set(boolean value) {
        add(value);
    }

    @Override
    public void setError(ByteBuffer bytes) {
        add(ErrorReply.parse(text(bytes)));
    }

    @Override
    public void multi(int count) {
        begin(new ArrayList<>(), count);
    }

    @Override
    public void multiSet(int count) {
        begin(new LinkedHashSet<>(), count);
    }

    @Override
    public void multiMap(int count) {
        begin(new LinkedHashMap<>(), 2 * count);
    }
}
