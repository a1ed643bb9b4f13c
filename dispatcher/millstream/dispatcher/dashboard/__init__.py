"""The web dashboard's files, as its build left them here, and how they are served."""
