"""Jobs as all services see them: graph, plan, identifiers, states."""
