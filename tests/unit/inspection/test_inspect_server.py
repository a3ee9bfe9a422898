"""Test the page's server against hostile requests, over a real connection, with a fake decoder."""

import http.client
import json
import logging
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra inspect is not installed")
uvicorn = pytest.importorskip("uvicorn", reason="the extra inspect is not installed")

from starlette.datastructures import Headers  # noqa: E402

from tests.reliability import Reliability  # noqa: E402
from wean_fairseq.inspection.jobs import Jobs  # noqa: E402
from wean_fairseq.inspection.question import LIMITS, Question  # noqa: E402
from wean_fairseq.inspection.server import PunctualProtocol, configure, create_app, refusal  # noqa: E402

JSON = {"Content-Type": "application/json"}
GOOD = json.dumps({"text": "hello", "systems": ["WEAN"]})
STATIC = ("/", "/page.css", "/page.js", "/outputs.js", "/about.js", "/dom.js", "/icon.svg")


class Answer:
    """Status, headers and body of an answer."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = response.read()

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.body)


class Client:
    """Client that sends requests to the server."""

    def __init__(self, port: int, asked: list[Question]) -> None:
        self.port = port
        self.asked = asked

    def __call__(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request(method, path, body, headers or {})
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def raw(self, request: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as connection:
            connection.sendall(request)
            return connection.makefile("rb").read()

    def decode(self, **changes: Any) -> dict[str, Any]:
        body = json.dumps({"text": "hello", "systems": ["WEAN"]} | changes)
        answer = self("POST", "/api/jobs", body, JSON)
        assert answer.status == 202, answer.body
        for _ in range(2000):
            found = self("GET", f"/api/jobs/{answer.json['job']}").json
            if found["state"] in ("done", "failed"):
                return found
            time.sleep(0.01)
        raise AssertionError("it was not decoded")


@contextmanager
def serving(work: Callable[..., list[dict[str, Any]]] | None = None, **options: Any) -> Iterator[Client]:
    asked: list[Question] = []

    def echo(question: Question, _count: Callable[[int], None]) -> list[dict[str, Any]]:
        asked.append(question)
        return [{"system": name, "text": question.text} for name in question.systems]

    app = create_app(Jobs(work or echo, **options), [{"name": "WEAN"}, {"name": "CopyNet"}])
    server = uvicorn.Server(configure(app))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        yield Client(listener.getsockname()[1], asked)
        server.should_exit = True
        thread.join(10)


@pytest.fixture(scope="module")
def shared() -> Iterator[Client]:
    with serving() as client:
        yield client


@pytest.fixture
def client(shared: Client) -> Client:
    shared.asked.clear()
    return shared


def test_a_question_is_answered(client: Client):
    assert client("GET", "/api/systems").json["limits"]["characters"] == LIMITS.characters
    found = client.decode(text="hello\0 <b>you</b>", systems=["CopyNet", "WEAN"], beam=3, outputs=2)
    assert [result["system"] for result in found["results"]] == ["CopyNet", "WEAN"]
    assert client.asked == [Question("hello <b>you</b>", ("CopyNet", "WEAN"), 3, 2, 100)]


@pytest.mark.parametrize("path", STATIC)
def test_own_files_with_a_strict_policy(client: Client, path: str):
    answer = client("GET", path)
    policy = dict(part.strip().partition(" ")[::2] for part in answer.headers["content-security-policy"].split(";"))
    assert answer.status == 200
    assert answer.body
    assert policy["default-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["require-trusted-types-for"] == "'script'"
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in answer.headers
    # the page loads no external resources
    assert b"http:" not in answer.body.replace(b"http://www.w3.org/2000/svg", b"")
    assert b"https:" not in answer.body
    assert b"innerHTML" not in answer.body


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost@evil", ""])
@pytest.mark.parametrize("path", ["/", "/api/systems", "/api/jobs", "/nothing"])
def test_another_host_is_refused(client: Client, host: str, path: str):
    method = "POST" if path == "/api/jobs" else "GET"
    answer = client(method, path, GOOD if method == "POST" else None, {"Host": host, **JSON})
    assert answer.status == 403
    assert answer.json["error"].startswith("this page answers to 127.0.0.1 and localhost only")
    assert "content-security-policy" in answer.headers
    assert not client.asked


def test_no_host_and_two_hosts_are_refused(client: Client):
    assert b" 400 " in client.raw(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n").splitlines()[0]
    two = b"GET /api/systems HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
    assert client.raw(two).split()[1] in (b"400", b"403")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9000", "127.0.0.1:9000", "[::1]:9000"])
def test_this_computer_by_any_name_and_port(client: Client, host: str):
    assert client("GET", "/", headers={"Host": host}).status == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://localhost"])
def test_other_sites_cannot_ask(client: Client, origin: str):
    answer = client("POST", "/api/jobs", GOOD, {"Origin": origin, **JSON})
    assert answer.status == 403
    assert not client.asked
    preflight = client("OPTIONS", "/api/jobs", headers={"Origin": origin, "Access-Control-Request-Method": "POST"})
    assert preflight.status == 403
    assert "access-control-allow-origin" not in preflight.headers


def test_the_page_itself_can_ask(client: Client):
    host = f"127.0.0.1:{client.port}"
    assert client("POST", "/api/jobs", GOOD, {"Origin": f"http://{host}", "Host": host, **JSON}).status == 202
    assert client.decode()["state"] == "done"


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None])
def test_forms_of_other_sites_are_no_questions(client: Client, kind: str | None):
    answer = client("POST", "/api/jobs", GOOD, {"Content-Type": kind} if kind else {})
    assert (answer.status, answer.json["error"]) == (415, "the request must be application/json; use the page.")
    assert not client.asked


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/jobs"),
        ("PUT", "/api/jobs"),
        ("DELETE", "/"),
        ("POST", "/"),
        ("POST", "/api/systems"),
        ("TRACE", "/"),
    ],
)
def test_other_methods_are_refused(client: Client, method: str, path: str):
    answer = client(method, path)
    assert (answer.status, answer.json["error"]) == (405, "this address does not take such requests.")


@pytest.mark.parametrize(
    "path",
    [
        "/../cli.py",
        "/static/index.html",
        "/%2e%2e/cli.py",
        "/..%2fcli.py",
        "//etc/passwd",
        "/page.css/../../cli.py",
        "/api/jobs/../../cli.py",
        "/nothing",
    ],
)
def test_no_request_names_a_file(client: Client, path: str):
    answer = client("GET", path)
    assert (answer.status, answer.json) == (404, {"error": "there is no such page here."})


def test_too_much_is_refused_whatever_it_says_of_its_length(client: Client):
    long = json.dumps({"text": "a" * 100_000, "systems": ["WEAN"]}).encode()
    says = {"error": "the text is too long: at most 2,000 characters are read."}
    told = client("POST", "/api/jobs", long, JSON)
    # a chunked request without a length
    in_parts = client("POST", "/api/jobs", iter([long[:50_000], long[50_000:]]), JSON)
    assert (told.status, told.json) == (in_parts.status, in_parts.json) == (413, says)
    within = client("POST", "/api/jobs", json.dumps({"text": "a" * 20_000, "systems": ["WEAN"]}), JSON)
    assert (within.status, within.json["error"][:35]) == (422, "the text has 20,000 characters, and")
    assert not client.asked
    assert client.decode()["state"] == "done"


def test_a_length_that_is_a_lie_is_refused_at_once(client: Client):
    head = (
        f"POST /api/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {10**12}\r\n"
    )
    answer = client.raw(head.encode() + b"Connection: close\r\n\r\n" + b"[" * (LIMITS.body + 1))
    assert b" 413 " in answer.splitlines()[0]


def test_a_request_that_ends_early_is_no_failure(client: Client, caplog: pytest.LogCaptureFixture):
    with socket.create_connection(("127.0.0.1", client.port), timeout=20) as connection:
        connection.sendall(b"POST /api/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
        connection.sendall(b'Content-Length: 90\r\n\r\n{"text": "a')
        time.sleep(0.2)
    assert client.decode()["state"] == "done"
    # An earlier test in the same process may have enabled the server's messages about requests.
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_failure_of_the_server_has_the_headers_too():
    with serving(lambda _question, _count: [{"share": float("nan")}]) as client:  # JSON has no NaN
        number = client("POST", "/api/jobs", GOOD, JSON).json["job"]
        while (answer := client("GET", f"/api/jobs/{number}")).status == 200:
            assert answer.json["state"] in ("waiting", "running")
    assert answer.status == 500
    assert "content-security-policy" in answer.headers
    assert b"nan" not in answer.body


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ("[]", 422, "the request is not one of this page (Expected `object`, got `array`): use the page."),
        (
            json.dumps({"text": "a", "systems": ["/etc/passwd"]}),
            422,
            "no such checkpoint is loaded; there is WEAN, CopyNet.",
        ),
        (
            json.dumps({"text": "", "systems": ["WEAN"]}),
            422,
            "there is nothing to decode yet: type a sentence, or topics.",
        ),
    ],
)
def test_bad_questions_are_refused_in_plain_words(client: Client, body: str, status: int, says: str):
    answer = client("POST", "/api/jobs", body, JSON)
    assert (answer.status, answer.json) == (status, {"error": says})
    assert answer.headers["content-type"] == "application/json"


def test_unknown_jobs(client: Client):
    answer = client("GET", "/api/jobs/AAAA")
    assert (answer.status, answer.json["error"]) == (404, "this decoding is not known any more: decode again.")


def test_a_full_queue_is_said():
    go_on = threading.Event()
    running = threading.Event()

    def wait(_question: Question, _count: Callable[[int], None]) -> list[dict[str, Any]]:
        running.set()
        go_on.wait(20)
        return []

    with serving(wait, waiting=1) as client:
        first = client("POST", "/api/jobs", GOOD, JSON)
        assert running.wait(20)
        statuses = [client("POST", "/api/jobs", GOOD, JSON).status for _ in range(2)]
        state = client("GET", f"/api/jobs/{first.json['job']}").json
        go_on.set()
    assert [first.status, *statuses] == [202, 202, 503]
    assert (state["state"], state["systems"], state["done"]) == ("running", ["WEAN"], 0)


# --- connections that are held open ---------------------------------------------------------------------------------

HEAD = b"POST /api/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
HALF_SENT = {
    "nothing": b"",
    "half a line": b"POST /api",
    "half of the headers": HEAD,
    "half of the body": HEAD + b'Content-Length: 90\r\n\r\n{"text": "a',
    "half of the parts": HEAD + b'Transfer-Encoding: chunked\r\n\r\n5\r\n{"tex\r\n',
}


def is_closed(connection: socket.socket) -> bool:
    try:
        while connection.recv(4096):
            pass
    except ConnectionResetError:
        pass
    return True


@pytest.mark.parametrize(
    "sent", [*list(HALF_SENT)[:1], *(pytest.param(name, marks=pytest.mark.slow) for name in HALF_SENT)]
)
def test_80_half_sent_requests_stop_nobody_and_are_given_up(
    sent: str, monkeypatch: pytest.MonkeyPatch, reliability: Reliability
):
    monkeypatch.setattr(PunctualProtocol, "request_seconds", 0.5)
    with serving() as client, ExitStack() as stack:
        held = [stack.enter_context(socket.create_connection(("127.0.0.1", client.port), 20)) for _ in range(80)]
        for connection in held:
            connection.sendall(HALF_SENT[sent])
        assert client("GET", "/").status == 200
        assert client.decode()["state"] == "done"
        assert all(is_closed(connection) for connection in held)
    reliability.count("attacks on the page")


def test_a_request_that_comes_byte_by_byte_is_given_up(monkeypatch: pytest.MonkeyPatch):
    """Every byte arrives within the time limit for one read, but the whole request takes too long."""
    monkeypatch.setattr(PunctualProtocol, "request_seconds", 0.5)
    with serving() as client, socket.create_connection(("127.0.0.1", client.port), 20) as connection:
        began = time.monotonic()
        with suppress(ConnectionError):
            while time.monotonic() < began + 20:
                connection.sendall(b"G")
                time.sleep(0.05)
    assert time.monotonic() < began + 15


def test_an_answer_that_nobody_reads_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(PunctualProtocol, "request_seconds", 0.2)
    monkeypatch.setattr(PunctualProtocol, "answer_seconds", 0.3)
    lost = threading.Event()
    connection_lost = PunctualProtocol.connection_lost

    def notice(protocol: PunctualProtocol, error: Exception | None) -> None:
        connection_lost(protocol, error)
        if not protocol.transport.get_write_buffer_size():
            lost.set()

    with serving(lambda _question, _count: [{"text": "x" * 20_000_000}]) as client:  # larger than any socket buffer
        number = client("POST", "/api/jobs", GOOD, JSON).json["job"]
        while client("GET", f"/api/jobs/{number}").json["state"] != "done":
            time.sleep(0.01)
        monkeypatch.setattr(PunctualProtocol, "connection_lost", notice)
        with socket.create_connection(("127.0.0.1", client.port), 20) as connection:
            connection.sendall(f"GET /api/jobs/{number} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            assert lost.wait(20)


BUSY = """
from types import SimpleNamespace
import torch
from wean_fairseq.inspection import cli

def work(_question, _count):
    print("decoding", flush=True)
    while True:
        torch.rand(50, 50) @ torch.rand(50, 50)

cli.worker = lambda _systems: work
cli.load_systems = lambda _arguments: [SimpleNamespace(describe=lambda: {"name": "WEAN"})]
raise SystemExit(cli.main(["WEAN=x", "--data", "y", "--port", "0"]))
"""


def test_ctrl_c_ends_it_well_while_it_decodes():
    """If Python ends while a thread is inside torch, it aborts ("terminate called without an active exception")."""
    with subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as command:
        port = int(re.search(rb":(\d+)/", command.stdout.readline())[1])
        assert Client(port, [])("POST", "/api/jobs", GOOD, JSON).status == 202
        assert command.stdout.readline() == b"decoding\n"
        command.send_signal(signal.SIGINT)
        _, said = command.communicate(timeout=60)
    assert (command.returncode, b"terminate called" in said) == (0, False)


@pytest.mark.parametrize("origins", [["http://localhost:80", "http://evil.example"], ["http://evil.example", "null"]])
def test_every_origin_of_a_request_is_looked_at(origins: list[str]):
    headers = Headers(raw=[(b"host", b"localhost:80"), *((b"origin", origin.encode()) for origin in origins)])
    assert (
        refusal(headers, "POST") == "this page accepts requests from itself only, and this one came from another site."
    )
