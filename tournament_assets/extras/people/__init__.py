"""What people say besides the judge: labels of pairs, collected on a page or read from files."""
