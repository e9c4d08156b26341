"""The only code that makes anything visible in the store: stage, judge, commit."""
