"""What the REST API can be asked: a class for each group of endpoints, with its rows of the table of routes."""
