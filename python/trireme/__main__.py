"""python -m trireme: the same as the command trireme."""
import sys

from .console import main

sys.exit(main())
