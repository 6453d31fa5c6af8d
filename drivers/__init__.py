"""The driving side: the command line and the headless driver.  The only place that names adapters."""
