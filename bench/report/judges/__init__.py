"""Measure the quality of judges, by labels of people and by a comparison of several judges."""
