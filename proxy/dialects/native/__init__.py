"""The memory API of Mnemogate itself."""
