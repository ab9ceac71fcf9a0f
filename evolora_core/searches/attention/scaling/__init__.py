"""How the loss falls with the size of the model, what that says of larger models, and how sure it is."""
