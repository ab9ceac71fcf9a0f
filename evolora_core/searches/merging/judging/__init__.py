"""How models are judged: log-likelihoods of gold answers, and answers."""
