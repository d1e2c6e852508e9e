"""homespec: a home language-model daemon that drafts tokens only when it fits and only when it pays."""

__version__ = "0.1.0"
