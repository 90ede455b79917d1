"""Takes orders: each is written together with the job that bills it."""

import argparse

from claret import Claret
from claret.errors import RepeatedError

STREAM = "jobs"


def enqueue(db, order, customer, amount):
    """Writes an order and its job at one instant: there is never one without the other.

    The same order can be sent again, by any process: it is written once. So a caller that gets an
    error, because the server was away for more than ten seconds, just tries again.
    """
    try:
        with db.batch(once=f"enqueue-{order}") as batch:
            batch.hset(f"order:{order}", mapping={"customer": customer, "amount": amount})
            batch.xadd(STREAM, {"order": order})
    except RepeatedError:
        # It is written, but the server has not kept the replies of the first time.
        pass


def main():
    """Takes orders with consecutive numbers."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--port", type=int, default=6379)
    words.add_argument("--first", type=int, default=1, help="number of the first order")
    words.add_argument("--count", type=int, default=10)
    args = words.parse_args()
    db = Claret(port=args.port, decode_responses=True)
    for order in range(args.first, args.first + args.count):
        enqueue(db, order, customer=f"customer:{order % 7}", amount=order)
    print(f"{args.count} orders, {db.xlen(STREAM)} jobs wait")


if __name__ == "__main__":
    main()
