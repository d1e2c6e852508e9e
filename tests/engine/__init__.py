"""Tests of homespec.engine."""
