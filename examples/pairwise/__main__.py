"""``python3 -m pairwise``."""

import sys

from .cli import main

sys.exit(main())
