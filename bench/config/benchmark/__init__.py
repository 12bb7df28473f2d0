"""The benchmark config: its sections in both dialects, and how its files are read."""
