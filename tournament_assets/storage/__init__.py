"""What the project writes: tables, judgment files, run directories."""
