"""Reporters: plug-ins that export the metrics of a service to monitoring systems."""
