"""The public log of receipts: its entries, checkpoints and witnesses."""
