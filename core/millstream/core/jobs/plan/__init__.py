"""What the client hands to the tasks of a job: specifications of operators, in chains, and how edges partition."""
