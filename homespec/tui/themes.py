"""The two sets of colours. Text and bars of both can be read on every ground that they stand on."""

from __future__ import annotations

from textual.theme import Theme

DARK = Theme(
    name="homespec-dark",
    primary="#0178d4",
    secondary="#8a9fb8",
    accent="#ffa62b",
    warning="#ffa62b",
    error="#d9536f",
    success="#4ebf71",
    foreground="#e0e0e0",
    # The usual ground of the chosen row is so bright that quiet text fades on it.
    variables={"block-cursor-background": "#0b2f4c", "block-cursor-foreground": "#e0e0e0"},
)
LIGHT = Theme(
    name="homespec-light",
    primary="#00558f",
    secondary="#4a5f78",
    accent="#9c4a00",
    warning="#8f5200",
    error="#a8123a",
    success="#1a8a48",
    foreground="#141414",
    background="#f4f4f4",
    surface="#ececec",
    panel="#e2e2e2",
    dark=False,
    variables={
        "block-cursor-background": "#d6e7f5",
        "block-cursor-foreground": "#141414",
        "primary-muted": "#d6e7f5",
        "footer-key-foreground": "#00558f",
    },
)
