"""Export the rows of a run, also in the formats of other tools."""
