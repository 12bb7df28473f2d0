"""Signing keys, signatures of receipts, and the store of trusted keys."""
