"""What every search needs and no search changes: identities, artefacts, stages, settings, meters, random streams."""
