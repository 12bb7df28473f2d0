"""Run bench as ``python -m bench``."""

from bench.cli import main

main()
