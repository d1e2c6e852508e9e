"""Prompts for comparing answers: different kinds of text, each with something to repeat and something to invent."""

PROMPTS = (
    "Write a short story about a lighthouse keeper and a storm.",
    "List the planets of the solar system in order, one per line.",
    "Repeat this line five times: the quick brown fox jumps over the lazy dog.",
    "Explain how a bicycle stays upright.",
    "Write a Python function that reverses a string, with a docstring and two examples.",
    "Translate into Spanish: The weather is nice today, let us go for a walk.",
    "Summarise in one sentence: Rivers carry water from the mountains to the sea. On the way they shape valleys, feed "
    "fields and power mills. Where they meet the sea they leave sand and mud, and new land grows.",
    "Give me a recipe for pancakes, first the ingredients, then the steps.",
    "Correct the spelling: Teh cat sat on teh mat and lookd at teh moon.",
    "What are three differences between a frog and a toad?",
    "Write a polite email asking to move a meeting from Monday to Tuesday.",
    "Count from one to thirty in words, separated by commas.",
)
