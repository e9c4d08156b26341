"""What happens after a memory made an answer wrong: signals, judges, the search for culprits."""
