"""Answer calibration (method.md 6): checkable answers are held against the evidence, open ones stay."""

from zeromem_gpu.calibrate.answer import calibrate_answer

__all__ = ["calibrate_answer"]
