"""What algorithms have in common that descend on a policy and values."""
