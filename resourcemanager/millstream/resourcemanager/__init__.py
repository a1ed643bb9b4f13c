"""The resource manager: who has which slots, who needs how many, and where more task managers come from."""
