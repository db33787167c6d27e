"""From files and objects to batches: reading, splitting, tokens, and the order in which a network sees them."""
