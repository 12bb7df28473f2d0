"""Metrics that compute the value of an answer from its text, the chosen option, or the verdicts."""
