"""The pure middle: what a memory candidate is, and whether it may become a memory.

Nothing here waits, reads a clock, draws a random number, logs or opens a file. Everything that
depends on the outside reaches the gate as evidence in `policy.facts.Facts`.

    model, query      the nouns
    skeleton, labels  text as matching sees it; where a label comes from
    ruleset           the source x class matrix and its epoch
    checks, gate      the numbered steps, and the one function that runs them
    verdict           what the gate may answer; the permit only it can make
"""
