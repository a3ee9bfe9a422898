"""The folder of the preparing scripts on the path, as it is when one of them runs."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "preprocess"))
