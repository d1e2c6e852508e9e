"""The shapes of OpenAI and Ollama, in and out: the only home of the names that clients see."""
