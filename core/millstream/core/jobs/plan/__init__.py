"""The program of a job, as the client sends it to tasks: specifications of operators, chains and partitioners."""
