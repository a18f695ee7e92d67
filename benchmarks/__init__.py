"""How fast the twin is, and its fits made again."""
