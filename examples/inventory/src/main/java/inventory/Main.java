package inventory;

import claret.Claret;
import claret.Options;
import claret.error.ClaretException;
import java.io.IOException;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.SortedMap;
import java.util.TreeMap;

/** The command line. */
public final class Main {
    private static final String USAGE =
            """
            add ARTICLE=COUNT...
            reserve ORDER SECONDS ARTICLE=COUNT...
            buy ORDER
            release ORDER
            show ARTICLE...
            The store is at the address in CLARET, or at 127.0.0.1:6379.""";

    private Main() {}

    /** Carries one command out. The exit status is 1 if it had no effect, and 2 if it was wrong. */
    public static void main(String[] words) throws IOException {
        String address = System.getenv().getOrDefault("CLARET", "127.0.0.1:6379");
        try (Claret db = Claret.connect(Options.builder().address(address).build())) {
            System.exit(carryOut(new Inventory(db), List.of(words)) ? 0 : 1);
        } catch (IllegalArgumentException | IndexOutOfBoundsException wrong) {
            System.err.println(wrong.getMessage() + "\n" + USAGE);
            System.exit(2);
        } catch (ClaretException error) {
            System.err.println(error.getMessage());
            System.exit(2);
        }
    }

    private static boolean carryOut(Inventory inventory, List<String> words) {
        String command = words.isEmpty() ? "" : words.get(0);
        switch (command) {
            case "add" -> {
                articles(words.subList(1, words.size())).forEach(inventory::add);
                return true;
            }
            case "reserve" -> {
                Duration time = Duration.ofSeconds(Long.parseLong(words.get(2)));
                SortedMap<String, Long> articles = articles(words.subList(3, words.size()));
                return say(inventory.reserve(words.get(1), articles, time), "reserved", "sold out");
            }
            case "buy" -> {
                return say(inventory.buy(words.get(1)), "bought", "the reservation has ended");
            }
            case "release" -> {
                return say(inventory.release(words.get(1)), "released", "nothing is reserved");
            }
            case "show" -> {
                for (Inventory.Shown one : inventory.show(words.subList(1, words.size()))) {
                    Object[] values = {one.article(), one.free(), one.sold()};
                    System.out.printf("%s: %d free, %d sold%n", values);
                }
                return true;
            }
            default -> throw new IllegalArgumentException("no such command: " + command);
        }
    }

    private static boolean say(boolean done, String yes, String no) {
        System.out.println(done ? yes : no);
        return done;
    }

    private static SortedMap<String, Long> articles(List<String> words) {
        SortedMap<String, Long> articles = new TreeMap<>();
        for (String word : words) {
            String[] parts = word.split("=", 2);
            long count = parts.length == 2 ? Long.parseLong(parts[1]) : 0;
            // A negative number would add to the stock.
            if (count <= 0) {
                throw new IllegalArgumentException("not ARTICLE=COUNT: " + Arrays.toString(parts));
            }
            articles.put(parts[0], count);
        }
        if (articles.isEmpty()) {
            throw new IllegalArgumentException("at least one article");
        }
        return articles;
    }
}
