"""What hosts put into model requests from files: where it is, and which lines a person let in."""
