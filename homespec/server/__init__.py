"""HTTP: the OpenAI endpoints and our own."""
