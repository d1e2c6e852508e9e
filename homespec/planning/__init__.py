"""`homespec plan` and `homespec pair`: what fits and why, before anything is loaded."""
