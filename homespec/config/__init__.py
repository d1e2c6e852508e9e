"""Settings: what can be set, and the layers it is read from."""

from homespec.config.checks import check_exposure
from homespec.config.layers import Layers, load, load_layers
from homespec.config.settings import Settings

__all__ = ["Layers", "Settings", "check_exposure", "load", "load_layers"]
