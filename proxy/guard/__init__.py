"""The gate as a relay of a server behind asks for it: in this process, or over a socket."""
