"""The daemon, seen from a program that talks to it over HTTP."""
