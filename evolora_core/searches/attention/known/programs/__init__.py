"""One file a mechanism. Each is self-contained: it imports torch and math alone."""
