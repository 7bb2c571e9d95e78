"""A reader behind a server that misbehaves: each fault stays with its own question."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.pipeline.test_answer import PARTY, found
from zeromem_gpu import InvalidInput, build_prompt, make_reader
from zeromem_gpu.reader.secrets import without_secrets

pytest.importorskip("openai")

KEY = "sk-secret-of-the-tests"


def completion(content: Any, ended: str = "stop", **message: Any) -> str:
    """A chat completion as a server sends it."""
    choice = {
        "index": 0,
        "finish_reason": ended,
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
        elif "filtered" in asked:
            body = completion("Ann and the", "content_filter")
        elif "unfinished" in asked:
            body = completion("Ann and the", "length")
        elif "unbegun" in asked:
            body = completion("", "length")
        elif "quoting" in asked:
            body = completion(None, refusal=f"I got Bearer {KEY} " + "and more " * 28 + KEY)
        elif "echoed" in asked:
            body = completion(f"You sent {KEY}")
        if "dripping" in asked:
            self.drip(body, headers="headers" in asked)
            return
        status = 401 if "forbidden" in asked else 503 if "overloaded" in asked else 200
        if status == 503:
            body = "<html>" + "busy " * 10_000
        if status == 401:
            shown = "sk-secr*******ests" if "shortened" in asked else KEY
            body = json.dumps({"error": {"message": f"bad key {shown}, sent as Bearer {KEY}"}})
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def drip(self, body: str, *, headers: bool) -> None:
        """Never silent for long and never done in time."""
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        sent, rest = ("", head + body) if headers else (head, body)
        try:
            self.wfile.write(sent.encode())
            for character in rest[:100]:
                self.wfile.write(character.encode())
                time.sleep(0.1)
        except OSError:
            return

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


FAULTS = [
    "slowly", "dropped", "nothing", "null", "refused", "broken", "otherwise", "forbidden",
    "overloaded", "filtered", "unbegun", "quoting", "shortened and forbidden",
]  # fmt: skip


def test_every_fault_is_an_error_of_its_question(url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    reader = make_reader("openai", model="m", base_url=url, timeout=0.3, retries=0, concurrency=4)
    asked = [found(f"Who baked {fault}?", "person", PARTY) for fault in (*FAULTS, "cakes")]
    *faulty, good = reader.read(asked)
    assert (good.text, good.error, good.prompt_tokens, good.completion_tokens) == ("Ann", None, 11, 3)
    for fault, reply in zip(FAULTS, faulty, strict=True):
        assert reply.text == "", fault
        assert reply.error, fault
        assert len(reply.error) <= 300
    said = caplog.text + repr(reader) + "".join(str(reply) for reply in faulty)
    assert len(said) > 1000
    for part in (KEY, "sk-secr", "***ests", "secret"):
        assert part not in said, part


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        ("Incorrect API key provided: zm-Ab12***********9xyz. See", "Incorrect API key provided: *** See"),
        ("key zm-A...9xyz is unknown", "key *** is unknown"),
        ("key …9xyz is unknown", "key *** is unknown"),
        ("key ZM-AB12CD is unknown", "key *** is unknown"),
        ("authorization: bearer other-token, sir", "authorization: Bearer ***, sir"),
        ("Illegal header b'Bearer zm-Ab12cd34-9xyz'", "Illegal header b'Bearer ***'"),
        ("https://user:word@host/v1 said no", "https://***@host/v1 said no"),
        ("another key sk-proj-1234", "another key ***"),
        ("wait... 5 ** 2, xxx, e.g. gpt-4o-mini", "wait... 5 ** 2, xxx, e.g. gpt-4o-mini"),
    ],
)
def test_no_message_holds_a_secret(message: str, kept: str) -> None:
    assert without_secrets(message, "zm-Ab12cd34-9xyz") == kept


def test_a_key_that_is_no_secret_leaves_messages_readable() -> None:
    assert without_secrets("Next: x is unexpected", "x") == "Next: *** is unexpected"


def test_a_function_that_fails_with_a_secret(url: str) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def fails(prompt: str) -> str:
        raise Mute if "mute" in prompt else ValueError(f"401 for Bearer abc and {KEY}")

    replies = make_reader(fails).read([found("Who?", "person"), found("Who is mute?", "person")])
    assert [reply.error for reply in replies] == ["ValueError: 401 for Bearer *** and ***", "Mute"]


def test_an_answer_that_quotes_the_key_is_kept_without_it(url: str) -> None:
    (reply,) = make_reader("openai", model="m", base_url=url).read([found("Who echoed?", "person")])
    assert (reply.text, reply.error) == ("You sent ***", None)


def test_cut_answers(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """A filter's cut is an error, a cut at max_tokens is not unless nothing came before it."""
    reader = make_reader("openai", model="m", base_url=url, retries=0)
    asked = ("Who was filtered?", "Who was unfinished?", "Who was unbegun?")
    filtered, unfinished, unbegun = reader.read([found(one, "person", PARTY) for one in asked])
    assert filtered.text == ""
    assert (filtered.error or "").startswith("refused")
    assert (unfinished.text, unfinished.error) == ("Ann and the", None)
    assert "max_tokens" in caplog.text
    assert "max_tokens" in (unbegun.error or "")


@pytest.mark.parametrize("what", ["body", "headers"])
def test_a_dripping_server_meets_the_deadline(url: str, what: str) -> None:
    """Never silent for `timeout`, so only a bound of the whole ends it; others are answered beside it."""
    reader = make_reader("openai", model="m", base_url=url, timeout=0.5, deadline=1.0, retries=2)
    began = time.monotonic()
    dripped, good = reader.read(
        [found(f"Who is dripping {what}?", "person", PARTY), found("Who baked?", "person", PARTY)]
    )
    assert time.monotonic() - began < 5.0
    assert "within 1 s" in (dripped.error or "")
    assert good.text == "Ann"


def test_the_deadline_covers_each_attempt_by_itself(url: str) -> None:
    reader = make_reader("openai", model="m", base_url=url, timeout=0.3, retries=0)
    (reply,) = reader.read([found("Who is dripping body?", "person", PARTY)])
    assert "within 0.3 s" in (reply.error or "")


def test_reading_inside_a_running_loop(url: str) -> None:
    """A notebook calls from within an event loop of its own."""
    reader = make_reader("openai", model="m", base_url=url)

    async def cell() -> str:
        return reader.read([found("Who baked?", "person", PARTY)])[0].text

    assert asyncio.run(cell()) == "Ann"


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


@pytest.mark.parametrize("key", ["two words", "schlüssel", "a\nb"])
def test_a_key_that_no_request_can_carry(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(InvalidInput, match="OPENAI_API_KEY") as caught:
        make_reader("openai")
    assert key not in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"timeout": 0}, {"timeout": float("inf")}, {"deadline": 0}, {"retries": -1}, {"retries": 1.5},
        {"concurrency": 0}, {"concurrency": True}, {"max_tokens": 0}, {"base_url": "localhost:80"},
        {"base_url": "http://"}, {"base_url": "http://[::1/v1"}, {"base_url": "http://host:99999/"},
        {"modle": "m"},
    ],
    ids=repr,
)  # fmt: skip
def test_bad_options(monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with pytest.raises(InvalidInput, match=next(iter(options))):
        make_reader("openai", **options)


def test_a_question_of_a_day_that_no_calendar_has() -> None:
    result = found("What happened on 31 February 2024?", "date", PARTY)
    assert "31 February 2024" in build_prompt(result)
    assert make_reader("extractive").read([result])[0].error is None
