"""The gate's side for relays of servers behind: in this process, or over a socket."""
