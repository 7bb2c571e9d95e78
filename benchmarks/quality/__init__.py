"""What the evidence is worth: tuning on the tuning split, reporting apart from it."""
