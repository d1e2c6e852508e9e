"""Texts to vectors: from a model that is made for it, or from the states of one that generates."""
