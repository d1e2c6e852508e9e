"""`homespec derive`: a smaller copy of a target that drafts for it."""
