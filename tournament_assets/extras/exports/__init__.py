"""A finished run in other forms: LaTeX, figures, tables for spreadsheets and for programs."""
