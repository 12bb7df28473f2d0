"""Export the items and calls of a run, also in the formats of other tools."""
