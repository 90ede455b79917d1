package claret;

/** What is done in a transaction. It may be called many times, so it does nothing but use it. */
@FunctionalInterface
public interface TransactionBody<T, X extends Exception> {
    /** Uses the transaction, and returns the value of the run. */
    T run(Transaction tx) throws X;
}
