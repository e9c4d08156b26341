"""Text in the forms in which it is compared: skeletons, sentences, and the language of orders."""
