"""Which extractor reads which bank, what is said when one finds nothing, and the same entities as spaCy."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support import NameExtractor, small_memory
from zeromem_gpu import Memory, Trace
from zeromem_gpu.errors import InvalidInput, ModelUnavailable
from zeromem_gpu.text.entities import Mention, SpacyExtractor, spacy_package

TRACES = [Trace("1", "Ada met Bo in 1843", bank=bank) for bank in ("a", "b")]


class Lower(NameExtractor):
    """Finds "met" alone."""

    fingerprint = "lower-of-tests/1"

    def extract(self, texts: Sequence[str]) -> list[list[Mention]]:
        return [[Mention("met", "met", "ORG", text.index("met"), text.index("met") + 3)] for text in texts]


class Blind(NameExtractor):
    """Finds nothing."""

    fingerprint = "blind-of-tests/1"

    def extract(self, texts: Sequence[str]) -> list[list[Mention]]:
        return [[] for _ in texts]


def entities(memory: Memory) -> dict[str, list[str]]:
    index = memory._index
    assert index is not None
    return {name: sorted(index.column(bank, "entities", "name")) for name, bank in index.banks.items()}


def test_a_bank_may_have_an_extractor_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from zeromem_gpu import toolbox

    monkeypatch.setattr(toolbox, "SpacyExtractor", lambda *_, **options: NameExtractor())
    memory = small_memory(extractor={"b": Lower()})
    memory.add(TRACES)
    # the same text, read by another extractor
    assert entities(memory) == {"a": ["ada", "bo"], "b": ["met"]}
    memory.save(tmp_path / "m")
    told = memory.info()["fingerprint"]
    assert told["ner"] == NameExtractor.fingerprint
    assert told["ner_of_banks"] == {"b": Lower.fingerprint}

    options = {"encoder": small_memory()._toolbox._encoder, "cache_dir": False, "device": "cpu"}
    other = Memory.open(tmp_path / "m", extractor=NameExtractor(), **options)
    with pytest.raises(InvalidInput, match=r"lower-of-tests.*bank 'b'"):
        other.add(Trace("2", "Cy", bank="b"))
    same = Memory.open(tmp_path / "m", extractor={"b": Lower(), "c": Lower()}, **options)
    same.add(Trace("2", "Cy met Di", bank="c"))
    assert entities(same)["c"] == ["met"]
    same.save(tmp_path / "m")
    assert same.info()["fingerprint"]["ner_of_banks"] == {"b": Lower.fingerprint, "c": Lower.fingerprint}


@pytest.mark.parametrize(
    ("extractor", "count", "warned"), [(Blind, 100, 1), (Blind, 99, 0), (Lower, 100, 0)]
)
def test_a_hundred_texts_without_an_entity_are_warned_of(
    extractor: type[NameExtractor], count: int, warned: int, caplog: pytest.LogCaptureFixture
) -> None:
    memory = small_memory(extractor=extractor())
    with caplog.at_level(logging.WARNING):
        memory.add([Trace(str(at), f"they met {at}") for at in range(count)])
    found = [record.getMessage() for record in caplog.records if "no entity" in record.getMessage()]
    assert len(found) == warned
    assert all("blind-of-tests" in text and "ner_model" in text for text in found)


def test_without_cupy_the_cpu_serves_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    from importlib import util

    pytest.importorskip("spacy")
    if util.find_spec("cupy") is not None:
        pytest.skip("cupy is installed")
    try:
        with caplog.at_level(logging.WARNING):
            extractor = SpacyExtractor(device="cuda:0")
    except ModelUnavailable as error:
        pytest.skip(str(error))
    assert "zeromem-gpu[cuda]" in caplog.text
    assert extractor.device == "cpu"
    assert extractor.extract(["Caroline moved to Berlin."])[0]


def test_the_model_finds_what_plain_spacy_finds() -> None:
    spacy = pytest.importorskip("spacy")
    try:
        package = spacy_package("en_core_web_sm")[0]
    except ModelUnavailable as error:
        pytest.skip(str(error))
    texts = [
        "Caroline moved to Berlin with Dr. Lee in March 2023 and works for Siemens.",
        "We saw the Louvre!! Then lunch, 12 euros.", "", "hm.", "Ünal and José left on Monday.",
    ] * 20  # fmt: skip
    plain = spacy.load(package)
    wanted = [[(e.start_char, e.end_char, e.label_) for e in plain(text).ents] for text in texts]
    found = SpacyExtractor(capitalised=False).extract(texts)
    assert [[(m.start, m.end, m.label) for m in one] for one in found] == wanted
    assert sum(map(len, wanted)) > 100
