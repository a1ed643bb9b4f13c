"""The REST API's endpoints: a class for each group, with its rows of the table of routes."""
