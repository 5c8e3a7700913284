import pytest
import sqlalchemy as sa

from tests.postgresql import PostgresServer
from tournament_assets.ledger import Ledger
from tournament_assets.tournament.errors import LedgerError

from .builders import begin_batch


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+no_such_driver://user:hunter2@127.0.0.1:1/db",
        "postgresql+no_such_driver://127.0.0.1:1/db?user=user&password=hunter2",
        "no_such_database://user:hunter2@127.0.0.1:1/db",
        "mysql+pymysql://user:hunter2@127.0.0.1:1/db",
        "postgresql+pg8000://user:hunter2@127.0.0.1:1/db",
        "postgresql://user:hunter2@127.0.0.1:1/db",
        "postgresql://127.0.0.1:1/db?user=user&password=hunter2",
        "postgresql://user:hunter2@127.0.0.1:1/db?no_such_option=1",
        "postgresql://user:hunter2@127.0.0.1:1/db?sslmode=nonsense",
        "postgresql://user:hunter2@127.0.0.1:99999/db",
        "postgresql://user:hunter2@127.0.0.1:port/db",
        "postgresql://user:hunter2@[::1/db",
        "user:hunter2@127.0.0.1",
        "sqlite://user:hunter2@127.0.0.1/ledger.sqlite",
        "sqlite:////proc/no/such/folder/ledger.sqlite?password=hunter2",
        "sqlite:////tmp/no\0where/ledger.sqlite?password=hunter2",
        "sqlite:///:memory:?timeout=soon",
    ],
)
def test_a_url_that_leads_nowhere_is_told_without_its_password(url: str) -> None:
    with pytest.raises(LedgerError) as caught:
        Ledger(url)
    assert "check TOURNAMENT_LEDGER_URL" in " ".join(str(caught.value).split())
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in repr(caught.value.__cause__)


def test_a_wrong_password_is_not_repeated(postgresql: PostgresServer) -> None:
    with postgresql.database() as url:
        wrong = sa.make_url(url).set(password="hunter2").render_as_string(hide_password=False)
        with pytest.raises(LedgerError, match="password authentication failed") as caught:
            Ledger(wrong)
    assert "hunter2" not in str(caught.value)


def test_a_password_in_the_query_opens_the_ledger_and_is_not_repeated(
    postgresql: PostgresServer,
) -> None:
    with postgresql.database() as url:
        parsed = sa.make_url(url)
        password = str(parsed.password)
        moved = parsed.set(query={"password": password})
        moved = sa.URL.create(
            "postgresql", moved.username, None, moved.host, moved.port, moved.database, moved.query
        )
        ledger = Ledger(moved.render_as_string(hide_password=False))
        begin_batch(ledger, "n1")
        with pytest.raises(LedgerError) as caught:
            begin_batch(ledger, "n1")
        ledger.close()
    assert password not in str(caught.value)


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_a_postgresql_url_is_read_by_the_driver_that_the_project_installs(scheme: str) -> None:
    with pytest.raises(LedgerError, match=r"postgresql\+psycopg://user:\*\*\*@.* refused"):
        Ledger(f"{scheme}://user:hunter2@127.0.0.1:1/db")


def test_a_driver_that_is_not_installed_is_told_how_to_get() -> None:
    with pytest.raises(LedgerError, match=r"pip install 'tournament-assets\[postgres\]'"):
        Ledger("postgresql+pg8000://127.0.0.1:1/db")


def test_another_kind_of_database_is_refused() -> None:
    with pytest.raises(LedgerError, match=r"'mysql\+pymysql'; expected 'sqlite' or 'postgresql'"):
        Ledger("mysql+pymysql://127.0.0.1/db")
