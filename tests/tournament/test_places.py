import pytest
from pydantic import ValidationError

from tournament_assets.tournament.places import Location, ServerAddress, is_private


def test_a_location_says_exactly_one_place() -> None:
    assert Location(path="a").path == "a"
    with pytest.raises(ValidationError, match=r"nothing.* path"):
        Location(source="huggingface")
    with pytest.raises(ValidationError, match=r"path.*builtin"):
        Location(path="a", builtin="b")


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ({}, "nothing is given; expected exactly one of url and env"),
        ({"url": "http://a/v1", "env": "A"}, "url and env is given; expected exactly one"),
        ({"url": "localhost:8000"}, "the URL begins with 'localhost'; expected a base URL"),
        ({"url": "http:///v1"}, "expected a base URL such as"),
        ({"url": "http://a:port/v1"}, "the URL cannot be read"),
        ({"url": "http://me:pass@a/v1"}, "holds a user name, a query or a fragment"),
        ({"url": "http://a/v1?key=1"}, "holds a user name, a query or a fragment"),
    ],
)
def test_a_servers_address_is_a_url_without_secrets(address: dict[str, str], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        ServerAddress(**address)


@pytest.mark.parametrize(
    ("url", "is_ours"),
    [
        ("http://127.0.0.1:8000/v1", True),
        ("http://[::1]:8000/v1", True),
        ("http://localhost/v1", True),
        ("http://10.1.2.3/v1", True),
        ("http://192.168.0.7/v1", True),
        ("http://gpu-node-7:8000/v1", True),
        ("http://vllm.internal/v1", True),
        ("http://2130706433/v1", True),  # 127.0.0.1 as one number
        ("http://134744072/v1", False),  # 8.8.8.8 as one number
        ("http://0x08.8.8.8/v1", False),
        ("http://8.8.8.8/v1", False),
        ("http://[::ffff:8.8.8.8]/v1", False),
        ("http://[::ffff:10.0.0.1]/v1", True),
        ("https://api.openai.com/v1", False),
        ("https://localhost.example.com/v1", False),
        ("https://127.0.0.1.example.com/v1", False),
        ("", False),
    ],
)
def test_only_this_machine_and_private_networks_are_ones_own(url: str, is_ours: bool) -> None:
    assert is_private(url) == is_ours
