"""If the task itself reads the text (--dataset-impl raw), every line is one sentence, or the data is refused."""

import tempfile
from pathlib import Path

import pytest
from fairseq.dataclass.utils import convert_namespace_to_omegaconf  # noqa: F401 - initialises fairseq's config store
from hypothesis import strategies as st

from tests.fuzz.text import attempt, budgets, damaged, files, paragraphs
from tests.model_contract import make_dictionary
from wean_fairseq.errors import UserError
from wean_fairseq.tasks.paraphrase import ParaphraseConfig, ParaphraseTask


def load(folder: Path, source: bytes, target: bytes) -> ParaphraseTask:
    """Return the task after it has loaded the split ``test`` from these texts."""
    for side, content in (("src", source), ("tgt", target)):
        make_dictionary(9).save(str(folder / f"dict.{side}.txt"))
        (folder / f"test.src-tgt.{side}").write_bytes(content)
    cfg = ParaphraseConfig(data=str(folder), source_lang="src", target_lang="tgt", train_subset="train")
    cfg.keep_empty_lines, cfg.dataset_impl = True, "raw"
    cfg.required_seq_len_multiple, cfg.num_shards, cfg.shard_id = 1, 1, 0
    task = ParaphraseTask.setup_task(cfg)
    task.load_dataset("test")
    return task


@budgets(15, 1500)
def test_every_line_is_a_sentence_of_its_words(examples, reliability):
    def check(source, target, drawn, spoilt):
        texts = [
            drawn.draw((damaged if spoilt == side else files)(lines)) for side, lines in enumerate((source, target))
        ]
        misread = any(
            text.lines is None
            or text.content.startswith(b"\xef\xbb\xbf")
            or any("\r" in line for line in text.lines)
            or not text.content
            for text in texts
        )
        with tempfile.TemporaryDirectory() as place:
            if misread or len(source) != len(target):
                with pytest.raises(UserError):
                    load(Path(place), *(text.content for text in texts))
                return
            task = load(Path(place), *(text.content for text in texts))
            data, words = task.dataset("test"), task.source_dictionary
            for number, lines in enumerate(zip(source, target, strict=True)):
                for side, line in zip(("source", "target"), lines, strict=True):
                    assert [words[index] for index in data[number][side][:-1]] == line.split()
            assert len(data) == len(source)

    strategies = {"source": paragraphs(), "target": paragraphs(), "drawn": st.data()}
    attempt(examples, reliability, check, spoilt=st.sampled_from([None, None, 0, 1]), **strategies)
