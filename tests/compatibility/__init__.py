"""What a release promised: bytes, statements, flags, keys and routes that later code must keep."""
