"""The page's server: static files and three API routes. All input is validated first.

It answers only requests whose Host header names this computer (against DNS rebinding), and accepts only JSON from its
own page (against forms of other sites). It limits the size of requests and the time to receive them (against
connections that are held open). A request cannot choose a file by its path.
"""

import asyncio
import re
from importlib import resources
from pathlib import Path
from typing import Any

import h11
import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..errors import UserError
from .jobs import Busy, Jobs
from .question import LIMITS, read_question

_HOST = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?", re.IGNORECASE)
CONNECTIONS = 512  # maximum number of simultaneous connections. Each connection holds at most one body, see Limits
_PAGE = "index.html"  # the file that answers a request for /. Other files are served by name
_FILES = (_PAGE, "page.css", "page.js", "outputs.js", "about.js", "dom.js", "icon.svg")
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class PunctualProtocol(H11Protocol):
    """uvicorn's HTTP protocol with time limits for requests and answers. uvicorn itself only limits idle time.

    Attributes:
        request_seconds: time limit for receiving a request with its body.
        answer_seconds: time limit for the client to read the answer.
    """

    request_seconds = 10.0
    answer_seconds = 60.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._late = self.loop.call_later(self.request_seconds, self._close_if_late)

    def on_response_complete(self) -> None:
        """After a response has been sent, start the time limit of the next request on the connection."""
        super().on_response_complete()
        self._late.cancel()
        self._late = self.loop.call_later(self.request_seconds, self._close_if_late)

    def connection_lost(self, exc: Exception | None) -> None:
        self._late.cancel()
        super().connection_lost(exc)

    def _close_if_late(self) -> None:
        if self.conn.their_state is h11.DONE or self.transport.get_write_buffer_size():
            self._late = self.loop.call_later(self.answer_seconds, self.transport.abort)
        else:
            self.transport.abort()


class Guard:
    """Reject requests for other hosts and from other sites, and add security headers to every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        problem = refusal(Headers(scope=scope), scope["method"])
        if problem is None:
            await self.app(scope, receive, send_guarded)
        else:
            await JSONResponse({"error": problem}, status_code=403)(scope, receive, send_guarded)


def refusal(headers: Headers, method: str) -> str | None:
    """Return the reason for rejecting a request, or None."""
    hosts = headers.getlist("host")
    if len(hosts) != 1 or not _HOST.fullmatch(hosts[0]):
        return "this page answers to 127.0.0.1 and localhost only: open it by that address."
    own = f"http://{hosts[0].lower()}"
    if method not in ("GET", "HEAD") and any(origin.lower() != own for origin in headers.getlist("origin")):
        return "this page accepts requests from itself only, and this one came from another site."
    return None


def create_app(jobs: Jobs, systems: list[dict[str, Any]]) -> ASGIApp:
    """Create the server.

    Args:
        jobs: the queue of decodings.
        systems: descriptions of the systems for the page, each with its ``name``.
    """
    names = [system["name"] for system in systems]
    loaded = JSONResponse({"systems": systems, "limits": LIMITS._asdict()})

    async def list_systems(_request: Request) -> Response:
        return loaded

    async def submit(request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise HTTPException(415, "the request must be application/json; use the page.")
        body = await _body(request)
        try:
            return JSONResponse({"job": jobs.submit(read_question(body, names))}, status_code=202)
        except Busy as error:
            raise HTTPException(503, str(error)) from error
        except UserError as error:
            raise HTTPException(422, str(error)) from error

    async def status(request: Request) -> Response:
        state = jobs.status(request.path_params["job"])
        if state is None:
            raise HTTPException(404, "this decoding is not known any more: decode again.")
        return JSONResponse(state)

    routes = [
        *(Route("/" if name == _PAGE else f"/{name}", _static(name)) for name in _FILES),
        Route("/api/systems", list_systems),
        Route("/api/jobs", submit, methods=["POST"]),
        Route("/api/jobs/{job}", status),
    ]
    handlers = {HTTPException: _say_error}
    return Guard(Starlette(debug=False, routes=routes, exception_handlers=handlers))


def configure(app: ASGIApp) -> uvicorn.Config:
    """Return the configuration of uvicorn."""
    return uvicorn.Config(
        app,
        http=PunctualProtocol,
        ws="none",
        lifespan="off",
        log_config=None,  # configure_logging has already set up logging
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=CONNECTIONS,
        timeout_graceful_shutdown=1,
    )


def _static(name: str) -> Any:
    """Return a handler that answers with a static file. The file is read only once."""
    content = resources.files(__package__).joinpath("static", name).read_bytes()

    async def answer(_request: Request) -> Response:
        return Response(content, media_type=_TYPES[Path(name).suffix])

    return answer


async def _body(request: Request) -> bytes:
    """Return the body of a request. If it becomes too long, it is rejected while it is being received."""
    body = b""
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > LIMITS.body:
                raise HTTPException(413, f"the text is too long: at most {LIMITS.characters:,} characters are read.")
    except ClientDisconnect:
        raise HTTPException(400, "the request ended before its end.") from None
    return body


async def _say_error(_request: Request, error: Exception) -> Response:
    """Return the reason as a sentence, because Starlette would answer only with the name of the status."""
    assert isinstance(error, HTTPException)
    plain = {404: "there is no such page here.", 405: "this address does not take such requests."}
    usual = HTTPException(error.status_code).detail
    text = plain.get(error.status_code, usual) if error.detail == usual else error.detail
    return JSONResponse({"error": text}, status_code=error.status_code, headers=error.headers)
