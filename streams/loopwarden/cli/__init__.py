"""The command line: one file a command, nothing but arguments, printing and exit codes."""
