"""``python -m wean_fairseq.evaluation`` is ``wean-evaluate``."""

import sys

from wean_fairseq.evaluation.cli import main

if __name__ == "__main__":
    sys.exit(main())
