package claret.net;

/** A connection that is told its number once the server has said it. */
interface Greeted extends Connection {
    void greeted(long number);
}
