"""From files to batches: reading, splitting, symbols, and the order in which a network sees them."""
