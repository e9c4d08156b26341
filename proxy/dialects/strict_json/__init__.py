"""JSON text to values, in the three strictnesses that dialects need."""
