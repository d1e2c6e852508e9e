"""What models and clients call the same things: tool calls, thinking and roles, as text and as structure. Pure."""
