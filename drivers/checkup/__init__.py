"""What doctor looks at: each check is a function that returns a Check and changes nothing."""
