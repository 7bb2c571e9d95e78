"""Every array operation in its torch and its compiled form against the float64 references."""
