"""Evidence order and answer calibration under the front end's names, and its reader's prompt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from zeromem_gpu import Config, build_prompt, calibrate_answer, entity_name
from zeromem_gpu import QueryProfile as NativeProfile
from zeromem_gpu.compat.zero_mem.records import (
    Evidence,
    QueryProfile,
    Trace,
    check_session,
    native_profile,
    native_result,
)


class EvidenceCalibrator:
    """Orders evidence by its fit to the question, and holds answers against it."""

    def __init__(self) -> None:
        self._weight = Config().calibrate_subject

    def filter_and_rank(
        self, traces: Sequence[Trace], scores: Mapping[str, float], profile: QueryProfile
    ) -> list[Evidence]:
        """The traces of the profile's session by score, with a little for who or what it is about.

        A trace without a score has 0; equal ones keep their order, and a trace stands once.
        """
        check_session(profile.session_id)
        subjects = [name for name in map(entity_name, profile.subjects) if name]
        found = []
        for trace in {trace.id: trace for trace in traces}.values():
            if profile.session_id in (None, trace.session_id):
                fit = self._fit(trace, subjects)
                score = float(scores.get(trace.id, 0.0)) + self._weight * fit
                found.append(Evidence(trace, score, [], ["subject"] if fit else []))
        return sorted(found, key=lambda one: -one.score)

    def calibrate_answer(self, answer: str, evidence: Sequence[Evidence], profile: QueryProfile) -> str:
        """The answer, corrected where a rule can check it against the evidence; open answers stay."""
        result = native_result(profile.query, evidence, native_profile(profile))
        return calibrate_answer(answer, result)[0]

    def _fit(self, trace: Trace, subjects: Sequence[str]) -> float:
        """1 where a subject speaks, ½ where the text names one, else 0."""
        if entity_name(trace.speaker or "") in subjects:
            return 1.0
        text = f" {' '.join(entity_name(word) for word in trace.text.split())} "
        return 0.5 if any(f" {name} " in text for name in subjects) else 0.0


def build_reader_prompt(query: str, evidence: Sequence[Evidence]) -> str:
    """The prompt for one question: evidence in the order of telling, each line with time and speaker."""
    return build_prompt(native_result(query, evidence, NativeProfile(query)))


def answer_with_reader(
    query: str, evidence: Sequence[Evidence], llm_call: Callable[[str], str],
    calibrator: EvidenceCalibrator | None = None, profile: QueryProfile | None = None,
) -> str:  # fmt: skip
    """One call of `llm_call` with the prompt; with calibrator and profile its answer is calibrated.

    What `llm_call` raises goes to the caller.
    """
    if profile is None:
        prompt = build_reader_prompt(query, evidence)
    else:
        prompt = build_prompt(native_result(query, evidence, native_profile(profile)))
    answer = str(llm_call(prompt)).strip()
    if calibrator is None or profile is None:
        return answer
    return calibrator.calibrate_answer(answer, evidence, profile)
