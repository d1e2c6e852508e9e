"""What keeps an engine alive and its requests in order, one noun per file; `homespec.supervisor` puts it together."""
