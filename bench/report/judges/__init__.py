"""Measure the quality of judges: by labels of people, and by comparing several judges."""
