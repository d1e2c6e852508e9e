"""What a copy is measured on: to invent, to explain, to program, to repeat."""

PROMPTS = (
    "Write a short story about a lighthouse keeper and a storm.",
    "Explain to a child how a bicycle stays upright.",
    "Write a Python function that reverses a string, with a docstring and two examples.",
    "Correct the spelling and repeat the text: Teh cat sat on teh mat and lookd at teh moon. Teh moon was brigt.",
)
