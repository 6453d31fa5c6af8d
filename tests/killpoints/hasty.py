"""Commands one after the other, without an interpreter's start between them.

    python -m tests.killpoints.hasty SEED TOKENS FILE

So often that the driver and they decide at the same moment.  Each says its token and its exit
status in FILE when it has ended; whoever is killed before has said nothing.
"""

import random
import sys
import time
from collections.abc import Iterator, Sequence

from drivers.cli.main import main
from tests.killpoints.batch import RUN

LIMITS = (1, 2, 3)
REST_S = 0.06


def commands(chance: random.Random, prefix: str) -> Iterator[tuple[str, Sequence[str]]]:
    number = 0
    while True:
        number += 1
        token = f"{prefix}x{number:04d}"
        yield token, ("pause", "--reason", f"token-{token}")
        time.sleep(chance.uniform(0, REST_S / 4))
        yield "", ("unpause",)
        limit = str(chance.choice(LIMITS))
        yield "", ("set", "max_concurrent", limit)
        time.sleep(chance.uniform(0, REST_S))


def run(seed: int, prefix: str, path: str) -> None:
    with open(path, "a", encoding="ascii", buffering=1) as said:
        for token, words in commands(random.Random(seed), prefix):
            status = main(("--run", RUN, *words))
            if token:
                said.write(f"{token} {status}\n")


if __name__ == "__main__":
    run(int(sys.argv[1]), sys.argv[2], sys.argv[3])
