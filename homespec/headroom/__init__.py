"""What memory there is and what fits in it."""
