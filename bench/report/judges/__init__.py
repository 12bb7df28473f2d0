"""The quality of judges: labels by people, and several judges on the same answers."""
