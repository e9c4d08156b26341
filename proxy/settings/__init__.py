"""Settings: the table, the one reader of the environment, and what files may say."""
