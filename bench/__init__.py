"""`bench` measures AI memory systems on memory benchmarks."""

__version__ = "0.1.0"
