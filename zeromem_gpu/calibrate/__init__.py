"""Answer calibration: answers whose form can be checked, against the evidence they came from."""

from zeromem_gpu.calibrate.answer import calibrate_answer

__all__ = ["calibrate_answer"]
