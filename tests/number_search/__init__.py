"""A search for tests: it evolves one number, and lives outside the project as anybody's search would."""
