"""Questions → profiles, routes and arrays."""
