"""Manage signing keys and trusted keys, and sign receipts."""
