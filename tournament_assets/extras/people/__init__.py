"""What people say beside the judge: labels of pairs, asked for on a page or read from files."""
