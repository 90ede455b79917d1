"""A network in one process: it passes packets between interfaces, late or not at all.

Started by `network.py`, with the machines' interfaces (TUN devices) as open files. The position of
a file is the number of its machine, which is also the last byte of the machine's address. What is
to be done comes as lines on standard input, and each is answered with a line:

    delay US        every packet is so many microseconds on its way
    cut FROM TO     packets from one machine to another are lost
    join FROM TO    and are not any more
"""

import heapq
import os
import select
import sys
import time

BURST = 64
PACKET_BYTES_MAX = 1 << 16
# Of an IPv4 header: the version's place, and the last byte of the destination's address.
VERSION_AT, DESTINATION_AT = 0, 19


class Switch:
    """Packets on their way."""

    def __init__(self, files):
        self.files = files
        self.cut = set()
        self.delay_ns = 0
        self.waiting = []
        self.taken = 0

    def run(self):
        """Passes packets until standard input ends."""
        numbers = {file: number for number, file in enumerate(self.files)}
        while True:
            timeout_s = None
            if self.waiting:
                timeout_s = max(0, self.waiting[0][0] - time.monotonic_ns()) / 1e9
            ready, _, _ = select.select([0, *self.files], [], [], timeout_s)
            for file in ready:
                if file != 0:
                    self.take(numbers[file], file)
                elif not self.obey():
                    return
            self.deliver()

    def obey(self):
        """Does what the next line says."""
        line = sys.stdin.buffer.raw.readline().decode()
        if not line:
            return False
        name, *numbers = line.split()
        numbers = list(map(int, numbers))
        if name == "delay":
            self.delay_ns = numbers[0] * 1000
        elif name == "cut":
            self.cut.add(tuple(numbers))
        elif name == "join":
            self.cut.discard(tuple(numbers))
        print("done", flush=True)
        return True

    def take(self, source, file):
        """Takes what an interface has, up to a bound."""
        due = time.monotonic_ns() + self.delay_ns
        for _ in range(BURST):
            try:
                packet = os.read(file, PACKET_BYTES_MAX)
            except OSError:
                # Nothing more, or the interface is down.
                return
            if packet[VERSION_AT] >> 4 != 4:
                continue
            target = packet[DESTINATION_AT]
            if target < len(self.files) and (source, target) not in self.cut:
                self.taken += 1
                heapq.heappush(self.waiting, (due, self.taken, target, packet))

    def deliver(self):
        """Hands over what is due."""
        now = time.monotonic_ns()
        while self.waiting and self.waiting[0][0] <= now:
            _, _, target, packet = heapq.heappop(self.waiting)
            try:
                os.write(self.files[target], packet)
            except OSError:
                # Its interface is down, so the packet is lost.
                continue


if __name__ == "__main__":
    Switch([int(word) for word in sys.argv[1:]]).run()
