"""The driving side: the command line and the headless driver.  Only wiring names adapters."""
