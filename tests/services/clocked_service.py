"""The command line under a clock that can be set: ``-m tests.services.clocked_service FILE ARGUMENTS``.

The file holds the seconds by which the machine's clock is off; it is read each time that somebody asks.
"""

import sys
import time
from pathlib import Path


def main() -> None:
    offset, true_s = Path(sys.argv.pop(1)), time.time
    time.time = lambda: true_s() + float(offset.read_text())
    from predictor.cli import run  # late: whoever keeps the clock must see this one

    run()


if __name__ == "__main__":
    main()
