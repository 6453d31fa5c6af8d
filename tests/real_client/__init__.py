"""What the real client does, pinned by version: the facts that the driver is built on."""
