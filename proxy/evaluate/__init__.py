"""`mnemogate evaluate`: the paper's measurements on this very system, and further ones."""
