"""Decode the page's questions one at a time in a separate thread, while the page polls for progress.

The length of the queue is limited.
"""

import json
import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ..errors import UserError
from .question import Question

logger = logging.getLogger(__name__)

#: Function that decodes a question. It reports the number of finished systems by calling its second argument.
Work = Callable[[Question, Callable[[int], None]], list[dict[str, Any]]]


class Busy(UserError):
    """Error for a question that arrives while too many questions are waiting."""


@dataclass(eq=False)  # equal questions are separate jobs, so they must not compare as equal
class _Job:
    """A question, its state and its answer."""

    question: Question
    state: str = "waiting"  # one of waiting, running, done or failed
    done: int = 0  # number of finished systems
    started: float = 0.0
    answer: dict[str, Any] = field(default_factory=dict)  # the results, or an error
    size: int = 0  # size of the answer, in characters of JSON


class Jobs:
    """A queue of limited length, and the thread that answers its questions in order.

    Args:
        waiting: maximum number of waiting questions, without the running question.
        kept: maximum number of stored answers.
        characters: maximum total number of characters (JSON) in stored answers. The latest answer is always stored.
    """

    def __init__(self, work: Work, waiting: int = 4, kept: int = 16, characters: int = 32_000_000) -> None:
        self._work = work
        self._most_waiting = waiting
        self._most_kept = kept
        self._most_characters = characters
        self._jobs: dict[str, _Job] = {}  # the jobs by their names, the oldest first
        self._queue: deque[_Job] = deque()
        self._changed = threading.Condition()
        threading.Thread(target=self._run, name="decoding", daemon=True).start()

    def submit(self, question: Question) -> str:
        """Append a question to the queue. Return its number, which cannot be guessed.

        Raises:
            Busy: if the queue is full.
        """
        with self._changed:
            if len(self._queue) >= self._most_waiting:
                raise Busy("other decodings are waiting already: try again in a moment.")
            self._forget(self._most_kept - 1)
            number = secrets.token_urlsafe(16)
            job = self._jobs[number] = _Job(question)
            self._queue.append(job)
            self._changed.notify()
        return number

    def status(self, number: str) -> dict[str, Any] | None:
        """Return the state of a question for the page. Return ``None`` if the question is unknown or was removed."""
        with self._changed:
            job = self._jobs.get(number)
            if job is None:
                return None
            seconds = time.monotonic() - job.started if job.state == "running" else 0.0
            return {
                "state": job.state,
                "ahead": self._queue.index(job) + 1 if job in self._queue else 0,
                "systems": job.question.systems,
                "done": job.done,
                "seconds": round(seconds, 1),
                **job.answer,
            }

    @property
    def running(self) -> bool:
        with self._changed:
            return any(job.state == "running" for job in self._jobs.values())

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._queue))
                job = self._queue.popleft()
                job.state, job.started = "running", time.monotonic()
            state = "done"
            answer: dict[str, Any] = {}
            try:
                answer["results"] = self._work(job.question, partial(setattr, job, "done"))
            except Exception:
                logger.exception("decoding failed")
                state = "failed"
                answer["error"] = "decoding failed; the terminal of wean-inspect shows the reason."
            size = len(json.dumps(answer))
            with self._changed:
                job.state, job.answer, job.size = state, answer, size
                self._forget(self._most_kept, last=job)

    def _forget(self, most: int, last: _Job | None = None) -> None:
        """Remove the oldest answers until at most ``most`` remain and the limit of their total size is met.

        The job ``last`` is never removed.
        """
        ended = [name for name, job in self._jobs.items() if job.state in ("done", "failed") and job is not last]
        size = sum(job.size for job in self._jobs.values())
        while ended and (len(ended) + (last is not None) > most or size > self._most_characters):
            size -= self._jobs.pop(ended.pop(0)).size
