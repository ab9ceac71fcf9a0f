"""`python -m flows.cli`: the console script, where the environment's scripts are not on the path."""

from flows.cli import console

console()
