"""homespec as a service: what the service manager is told, and the files that make it one."""
