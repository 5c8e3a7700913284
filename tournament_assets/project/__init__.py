"""What people write: configs, prompt banks, rubrics, recorded responses."""
