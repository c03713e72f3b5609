"""The command line: it parses, calls the library and prints. One file a group of commands."""
