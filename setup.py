"""All facts are in pyproject.toml; here is only the mapping of a package that lives under kernels/.

`kernels/` itself is no package: an importable `kernels` would shadow Hugging Face's and break transformers.
"""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["zeromem_gpu", "zeromem_gpu.*"]), *find_packages("kernels")],
    package_dir={"zeromem_kernels": "kernels/zeromem_kernels"},
)
