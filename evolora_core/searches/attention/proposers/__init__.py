"""Where new programs come from: a grammar, an endpoint that answers prompts, or its recorded answers."""
