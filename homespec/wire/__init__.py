"""The OpenAI shapes, in and out: the only home of the names that clients see."""
