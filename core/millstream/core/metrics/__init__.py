"""The metrics of processes: the model, a registry for each service, and the reporters."""
