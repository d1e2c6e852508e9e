"""`homespec doctor`: what this box and its daemon can do, and whether the first promise holds on it."""
