"""How the instances in `configs/deploy` are told where their database is."""

from urllib.parse import urlsplit


def dagster_database(url: str) -> dict[str, str]:
    """Return the environment variables that lead to a PostgreSQL database."""
    parts = urlsplit(url)
    return {
        "DAGSTER_POSTGRES_HOST": str(parts.hostname),
        "DAGSTER_POSTGRES_PORT": str(parts.port),
        "DAGSTER_POSTGRES_USER": str(parts.username),
        "DAGSTER_POSTGRES_PASSWORD": str(parts.password),
        "DAGSTER_POSTGRES_DB": parts.path.removeprefix("/"),
    }
