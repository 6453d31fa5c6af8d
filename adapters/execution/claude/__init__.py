"""The lane ``headless:claude``: one ``claude -p`` child per model stage."""
