"""What programs share around their work: flags, messages, startup, output files, and the end."""
