"""Text as matching sees it: skeletons, sentences, directive and injection language."""
