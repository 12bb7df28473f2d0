"""Verify a receipt, compare two receipts, or repeat the run of a receipt."""
