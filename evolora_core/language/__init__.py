"""Language models and their tasks: hosts, families, data sets, grading."""
