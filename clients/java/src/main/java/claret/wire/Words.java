package claret.wire;

import claret.error.OrderException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/** Words of commands. */
public final class Words {
    private Words() {}

    /** The first words of a command, with more behind them. */
    public static String[] join(String[] more, String... first) {
        String[] words = new String[first.length + more.length];
        System.arraycopy(first, 0, words, 0, first.length);
        System.arraycopy(more, 0, words, first.length, more.length);
        return words;
    }

    /** The words as a list; refuses a command without a name, and a word that is missing. */
    public static List<String> checked(String... words) {
        if (words.length == 0) {
            throw new OrderException("a command has a name");
        }
        List<String> list = new ArrayList<>(words.length);
        for (String word : words) {
            if (word == null) {
                throw new OrderException("a word of " + words[0] + " is null");
            }
            list.add(word);
        }
        return Collections.unmodifiableList(list);
    }
}
