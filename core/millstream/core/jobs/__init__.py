"""The description of jobs that all services share: graph, plan, identifiers, states."""
