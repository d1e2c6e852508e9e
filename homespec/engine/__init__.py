"""The engine: the child process that owns llama.cpp."""
