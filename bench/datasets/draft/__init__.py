"""Guess a benchmark config from sample rows, for ``bench new benchmark``."""
