package claret.lock;

/** What is held as long as its lease, which a daemon thread renews. */
abstract class Leased implements Held, AutoCloseable {
    final Lease lease;

    Leased(Lease lease) {
        this.lease = lease;
        lease.keep();
    }

    @Override
    public String name() {
        return lease.name;
    }

    @Override
    public long token() {
        return lease.token();
    }

    @Override
    public boolean isHeld() {
        return lease.isHeld();
    }

    @Override
    public LockLostException lose() {
        return lease.lose();
    }

    /** Ends the renewal, so that what is held ends with its lease: for tests of what happens then. */
    public void stopRenewing() {
        lease.stopRenewing();
    }
}
