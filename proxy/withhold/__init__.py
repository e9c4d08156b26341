"""Withholding: refused texts stay out of everything that an agent is sent."""
