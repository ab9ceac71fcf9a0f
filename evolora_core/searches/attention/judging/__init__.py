"""How a program is examined, trained and scored, with its answers kept from it."""
