"""One file a flow: the order of the stages, nothing else. Importing this package loads neither Prefect nor torch."""
