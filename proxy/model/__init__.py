"""The model front behind its door: routes, credentials, one model request from end to end."""
