"""Reporters: plug-ins that carry the metrics of a service to systems that keep and show them."""
