"""Whether to draft, with what and how much: measured costs, learned acceptance, and a choice per round."""
