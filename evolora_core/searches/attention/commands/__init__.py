"""What the commands `evolora attention …` do, without what they print."""
