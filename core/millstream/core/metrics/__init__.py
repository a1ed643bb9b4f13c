"""What processes measure: the model, a registry for each service, and the reporters that carry it out."""
