"""Check a receipt: its signature, its content, and a repeated run."""
