"""JSON text to values, in the three degrees of strictness that dialects need."""
