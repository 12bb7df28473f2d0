"""The phases of an item: search, answer, evaluate, and the rows they write."""
