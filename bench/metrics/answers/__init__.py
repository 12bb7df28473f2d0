"""Metrics of answers: texts, options, verdicts."""
