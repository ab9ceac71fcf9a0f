"""What a pack of the attention search has."""
