"""The real driver, ended at every write and sync of a batch, at random moments, on a full disk.

What ends it is outside: strace, SIGKILL, a file system without space.  Nothing in the
code knows of it.
"""
