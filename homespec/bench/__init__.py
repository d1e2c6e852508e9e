"""An honest A/B of drafting: `homespec bench`. Talks HTTP only; the rules are in docs/bench.md."""
