"""Test that the queue of the page decodes one question at a time, in order, up to a limit.

An error in one decoding does not stop the queue.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from wean_fairseq.inspection.jobs import Busy, Jobs
from wean_fairseq.inspection.question import Question


def question(text: str) -> Question:
    return Question(text, ("WEAN",), 5, 5, 100)


def until(found: Callable[[], Any], seconds: float = 20) -> Any:
    end = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)
    return value


class Gate:
    """Work that does not finish until the test releases it."""

    def __init__(self) -> None:
        self.open = threading.Semaphore(0)
        self.order: list[str] = []
        self.at_once = 0
        self.most_at_once = 0

    def __call__(self, asked: Question, count: Callable[[int], None]) -> list[dict[str, Any]]:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.order.append(asked.text)
        self.open.acquire()
        count(1)
        self.at_once -= 1
        return [{"text": asked.text}]


def ended(jobs: Jobs, number: str) -> dict[str, Any]:
    def status() -> dict[str, Any] | None:
        found = jobs.status(number)
        return found if found is not None and found["state"] in ("done", "failed") else None

    return until(status)


def test_one_at_a_time_in_their_order_and_no_more_than_may_wait():
    gate = Gate()
    jobs = Jobs(gate, waiting=2)
    first = jobs.submit(question("first"))
    until(lambda: gate.order)
    second, third = jobs.submit(question("second")), jobs.submit(question("third"))
    assert jobs.status(first)["state"] == "running"
    assert jobs.running
    assert [jobs.status(number)["ahead"] for number in (second, third)] == [1, 2]
    with pytest.raises(Busy, match="other decodings are waiting already: try again in a moment"):
        jobs.submit(question("fourth"))
    for _ in range(3):
        gate.open.release()
    assert [ended(jobs, number)["results"] for number in (first, second, third)] == [
        [{"text": "first"}],
        [{"text": "second"}],
        [{"text": "third"}],
    ]
    assert gate.order == ["first", "second", "third"]
    assert gate.most_at_once == 1
    assert jobs.status(first)["done"] == 1
    assert not jobs.running


def test_the_same_question_waits_twice_each_in_its_own_place():
    gate = Gate()
    jobs = Jobs(gate, waiting=2)
    jobs.submit(question("first"))
    until(lambda: gate.order)
    waiting = [jobs.submit(question("again")) for _ in range(2)]
    assert [jobs.status(number)["ahead"] for number in waiting] == [1, 2]
    for _ in range(3):
        gate.open.release()


def test_a_failure_is_a_sentence_and_the_next_one_is_answered(caplog: pytest.LogCaptureFixture):
    def work(asked: Question, _count: Callable[[int], None]) -> list[dict[str, Any]]:
        if asked.text == "bad":
            raise RuntimeError("secret path /home/me")
        return [{"text": asked.text}]

    jobs = Jobs(work)
    bad, good = jobs.submit(question("bad")), jobs.submit(question("good"))
    assert ended(jobs, bad)["error"] == "decoding failed; the terminal of wean-inspect shows the reason."
    assert ended(jobs, good)["results"] == [{"text": "good"}]
    assert "secret path" in caplog.text


@pytest.mark.parametrize("kept", [1, 3, 8])
def test_old_answers_are_forgotten_and_numbers_cannot_be_guessed(kept: int):
    jobs = Jobs(lambda asked, _count: [{"text": asked.text}], kept=kept)
    numbers = []
    for index in range(10):
        numbers.append(jobs.submit(question(str(index))))
        ended(jobs, numbers[-1])
        known = [jobs.status(number) is not None for number in numbers]
        assert known == [place > index - kept for place in range(index + 1)]
    assert len(set(numbers)) == 10
    assert min(map(len, numbers)) >= 20
    assert jobs.status("unknown") is None


def test_long_answers_are_forgotten_sooner_but_never_the_last():
    """An answer is the JSON {"results": [{"text": "..."}]}, which has 27 characters in addition to the text."""
    jobs = Jobs(lambda asked, _count: [{"text": "x" * int(asked.text)}], characters=3 * 127)
    numbers, known = [], []
    for length in (100, 100, 100, 100, 900, 100):
        numbers.append(jobs.submit(question(str(length))))
        ended(jobs, numbers[-1])
        known.append("".join("-+"[jobs.status(number) is not None] for number in numbers))
    assert known == ["+", "++", "+++", "-+++", "----+", "-----+"]
