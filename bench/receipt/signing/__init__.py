"""Keys and signatures: which key signs, and which keys are trusted."""
