import sys

from homespec.engine.process import main

main(sys.argv[1:])
