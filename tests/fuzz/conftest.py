"""Put the folder of the data scripts on the module path, as Python does when it runs a script."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "preprocess"))
