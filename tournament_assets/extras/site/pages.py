"""The pages that this extra serves beside Dagster's."""

ROWS = {"site": ("extras.site.serving:site_app", "all reports, and what an edit made out of date")}
