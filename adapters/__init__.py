"""How the outside is reached: processes, git, task sources, this host."""
