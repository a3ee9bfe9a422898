"""The log file of a training."""

from fairseq.logging import progress_bar

import wean_fairseq

wean_fairseq.register()


def test_an_epoch_writes_every_line_of_the_log_once(tmp_path, caplog):
    """fairseq opens the log again for every epoch. Validation names no log file and writes to that of training."""
    caplog.set_level("INFO", logger=progress_bar.__name__)
    log = tmp_path / "train.log"
    for epoch in (1, 2, 3):
        training = progress_bar.progress_bar([], log_format="simple", log_file=str(log), epoch=epoch)
        progress_bar.progress_bar([], log_format="simple", epoch=epoch, prefix="valid").print({"loss": 1}, tag="valid")
        training.print({"loss": 2}, tag="train")
    assert log.read_text(encoding="utf-8").splitlines() == [
        line for epoch in (1, 2, 3) for line in (f"epoch {epoch:03d} | valid | loss 1", f"epoch {epoch:03d} | loss 2")
    ]
