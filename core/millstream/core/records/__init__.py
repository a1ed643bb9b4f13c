"""Records: their types, encoding, copying and handover between operators."""
