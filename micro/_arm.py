"""The arm of a checkout, under the name by which older and newer checkouts start it."""

import sys

from micro.arms.server import main

if __name__ == "__main__":
    main(sys.argv[1:])
