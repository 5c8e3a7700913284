"""Many heads on one base model, and the product of experts that decodes with them."""
