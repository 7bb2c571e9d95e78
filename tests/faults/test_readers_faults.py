"""A reader behind a server that misbehaves: each fault stays with its own question."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.pipeline.test_answer import PARTY, found
from zeromem_gpu import InvalidInput, build_prompt, make_reader

pytest.importorskip("openai")

KEY = "sk-secret-of-the-tests"


def completion(content: Any, **message: Any) -> str:
    """A chat completion as a server sends it."""
    choice = {
        "index": 0,
        "finish_reason": "stop",
        "message": {"role": "assistant", "content": content, **message},
    }
    usage = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}
    head = {"id": "x", "object": "chat.completion", "created": 0, "model": "m"}
    return json.dumps({**head, "choices": [choice], "usage": usage})


class Server(BaseHTTPRequestHandler):
    """Answers by a word in the question; counts its requests."""

    requests = 0

    def do_POST(self) -> None:
        type(self).requests += 1
        asked = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if "slowly" in asked:
            time.sleep(1.0)
        if "dropped" in asked:
            self.connection.close()
            return
        body = completion("Ann")
        if "nothing" in asked:
            body = completion("")
        elif "null" in asked:
            body = completion(None)
        elif "refused" in asked:
            body = completion(None, refusal="I will not say.")
        elif "broken" in asked:
            body = '{"choices": ['
        elif "otherwise" in asked:
            body = '["no", "completion"]'
        elif "endless" in asked:
            body = completion("word " * 10_000)
        status = 401 if "forbidden" in asked else 200
        if status == 401:
            body = json.dumps({"error": {"message": f"bad key {KEY}"}})
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    server.server_close()
    thread.join(5)


FAULTS = ["slowly", "dropped", "nothing", "null", "refused", "broken", "otherwise", "forbidden"]


def test_every_fault_is_an_error_of_its_question(url: str, caplog: pytest.LogCaptureFixture) -> None:
    reader = make_reader("openai", model="m", base_url=url, timeout=0.3, retries=0, concurrency=4)
    asked = [found(f"Who baked {fault}?", "person", PARTY) for fault in (*FAULTS, "cakes")]
    *faulty, good = reader.read(asked)
    assert (good.text, good.error, good.prompt_tokens, good.completion_tokens) == ("Ann", None, 11, 3)
    for fault, reply in zip(FAULTS, faulty, strict=True):
        assert reply.text == "", fault
        assert reply.error, fault
        assert len(reply.error) <= 300
    said = caplog.text + repr(reader) + "".join(str(reply) for reply in faulty)
    assert KEY not in said


def test_an_endless_answer_is_cut(url: str) -> None:
    reader = make_reader("openai", model="m", base_url=url, retries=0)
    (reply,) = reader.read([found("Who is endless?", "person", PARTY)])
    assert reply.error is None
    assert 0 < len(reply.text) < 10_000


def test_retries_are_the_librarys(url: str) -> None:
    reader = make_reader("openai", model="m", base_url=url, timeout=2.0, retries=1)
    before = Server.requests
    (reply,) = reader.read([found("Who was dropped?", "person", PARTY)])
    assert reply.error
    assert Server.requests - before == 2


def test_without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(InvalidInput, match="OPENAI_API_KEY"):
        make_reader("openai")


@pytest.mark.parametrize(
    "options", [{"timeout": 0}, {"retries": -1}, {"concurrency": 0}, {"base_url": "localhost:80"}], ids=repr
)
def test_bad_options(monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with pytest.raises(InvalidInput, match=next(iter(options))):
        make_reader("openai", **options)


def test_a_question_of_a_day_that_no_calendar_has() -> None:
    result = found("What happened on 31 February 2024?", "date", PARTY)
    assert "31 February 2024" in build_prompt(result)
    assert make_reader("extractive").read([result])[0].error is None
