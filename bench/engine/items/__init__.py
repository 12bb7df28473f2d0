"""Run the phases of an item: search, answer and evaluate."""
