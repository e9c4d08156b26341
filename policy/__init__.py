"""The rules without input or output: what a memory candidate is, and whether it becomes a memory.

Nothing here waits, reads a clock, draws a random number, logs or opens a file. Everything that
depends on the outside reaches the gate as evidence in `policy.facts.Facts`.

    model, query             the nouns, and filters over memories
    text                     text in the simplified form in which texts are compared
    trust, anchors           how far a principal is trusted; statements registered as true
    labels                   where a memory came from, and what may raise or lower its label
    withheld                 how a refused text is found again
    canonical, verdict       bytes and digest; what the gate may answer, and the permit
    facts, ruleset           the evidence of one decision; what the operator rules
    tokens, after            promotion tokens; plans for what is already stored
    checks, gate             the numbered steps, and the one function that runs them
"""
