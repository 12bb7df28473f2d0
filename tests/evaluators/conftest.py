"""Laws are checked without a clock; the judge double is importable."""

import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
