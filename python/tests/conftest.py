"""Makes these tests independent of the working directory."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
