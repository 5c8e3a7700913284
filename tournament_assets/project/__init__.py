"""What people write: configs, prompt banks, rubrics; and where a project's files are."""
