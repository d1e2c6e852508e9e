"""Starting points for classes of home boxes: one TOML file each, with a reason for every value."""
