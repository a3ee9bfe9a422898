"""``python -m wean_fairseq.evaluation`` is ``wean-evaluate``."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
