"""Withholding: what was refused stays out of everything that an agent is sent."""
