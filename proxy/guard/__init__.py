"""What relays ask of the gate about other memory servers, in one process or over a socket."""
