"""Runner of the stories that all clients of Claret must pass; see `README.md` beside it."""
