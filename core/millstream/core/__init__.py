"""What all sides of Millstream agree on. Nothing in here imports the API or a service."""
