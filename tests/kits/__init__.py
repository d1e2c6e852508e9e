"""What tests build with: tiny models, scripted drafters, an engine to drive."""
