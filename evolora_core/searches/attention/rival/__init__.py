"""The rival OpenEvolve 0.4: its selection, in processes of its own, with this project's grammar and evaluator."""
