"""Everything that proposes tokens, one file each."""
