"""The arms of an adapter search, one file a kind: the stage that trains it, what it is asked, and what it leaves."""
