"""Put the folder of the scripts on the module path, as when a script runs."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "preprocess"))
