"""What comes from elsewhere and may be hostile: files, documents, regular expressions, text for the console, and work
that may never end. Every border of the program reads through these few modules; their complaints are ValueErrors, which
each border turns into the one line of its own kind of error.
"""
