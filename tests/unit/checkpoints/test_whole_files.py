"""Test that files are written completely or not at all, with checksums. The checksums inside archives are verified."""

import errno
import hashlib
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from fairseq import checkpoint_utils

from wean_fairseq.checkpoints import writing
from wean_fairseq.checkpoints.reading import check_intact, read_checkpoint
from wean_fairseq.errors import UserError
from wean_fairseq.storage import files, json_files
from wean_fairseq.storage.archive import is_whole_archive
from wean_fairseq.storage.files import HashedFile, sha256_of, write_text, write_whole
from wean_fairseq.storage.manifest import NAME, Damaged, Manifest, check_file

OLD, NEW = b"the old content", b"the new content"


def checkpoint(value=1.0):
    return {"model": {"weight": torch.full((3, 400), value)}}


def write_to_full_disk(file, piece):
    """Replace ``HashedFile.write``, as on a disk with room for 1000 bytes."""
    if file._file.tell() + len(piece) > 1000:
        file.error = OSError(errno.ENOSPC, "No space left on device")
        raise file.error
    return file._file.write(piece)


# --- writing --------------------------------------------------------------------------------------------------------


def test_a_file_gets_its_name_when_all_of_it_is_there(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(OLD)
    seen = []

    def announce(digest):
        seen.append((digest, path.read_bytes()))

    digest = write_whole(path, lambda file: file.write(NEW), announce)
    assert digest == hashlib.sha256(NEW).hexdigest()
    assert seen == [(digest, OLD)]
    assert path.read_bytes() == NEW
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o755])
def test_a_file_keeps_its_permissions_but_not_its_other_names(tmp_path, mode):
    path, seen = tmp_path / "file", []
    path.write_bytes(OLD)
    path.chmod(mode)
    (tmp_path / "link").symlink_to(path)
    (tmp_path / "copy").hardlink_to(path)

    def write(file):
        (partial,) = tmp_path.glob(".wean-*")
        seen.append(partial.stat().st_mode & 0o777)
        file.write(NEW)

    write_whole(tmp_path / "link", write)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (NEW, mode)
    assert seen == [mode | 0o200]  # no other user reads it earlier, and remove_partial can open it
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "copy").read_bytes() == OLD


def test_a_folder_keeps_its_permissions(tmp_path):
    (tmp_path / "folder").mkdir(mode=0o700)
    with files.whole_folder(tmp_path / "folder", replace=True) as new:
        (new / "file").write_bytes(NEW)
        assert new.stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "folder").stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to other users")
def test_a_file_keeps_its_owner(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(OLD)
    os.chown(path, 12345, 23456)
    write_whole(path, lambda file: file.write(NEW))
    assert (path.stat().st_uid, path.stat().st_gid) == (12345, 23456)


def test_a_writer_that_fails_half_way_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(OLD)

    def fail(file):
        file.write(NEW[:5])
        raise KeyError("half way")

    with pytest.raises(KeyError, match="half way"):
        write_whole(path, fail)
    assert path.read_bytes() == OLD
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    "write",
    [
        lambda path, source: checkpoint_utils.torch_persistent_save(checkpoint(2.0), str(path)),
        lambda path, source: checkpoint_utils.PathManager.copy(str(source), str(path), overwrite=True),
    ],
    ids=["save", "copy"],
)
def test_a_full_disk_leaves_the_old_checkpoint(tmp_path, monkeypatch, write):
    path, source = tmp_path / "checkpoint_last.pt", tmp_path / "checkpoint1.pt"
    writing.save(checkpoint(1.0), path)
    writing.save(checkpoint(2.0), source)
    before = path.read_bytes()
    monkeypatch.setattr(HashedFile, "write", write_to_full_disk)
    with pytest.raises(UserError, match=r"checkpoint_last\.pt cannot be written \(No space left on device\)") as error:
        write(path, source)
    assert "earlier checkpoints are unchanged; free some space or choose another directory, and run" in str(error.value)
    with pytest.raises(UserError, match=r"\): free some space or choose another directory\.$"):  # by wean-average
        writing.save(checkpoint(2.0), path, keep_link=True)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {path.name, source.name, NAME}
    assert check_file(path, "unused")


def test_a_checkpoint_is_not_written_to_an_open_file(tmp_path):
    """A message that the command printed to the same file damaged the checkpoint. /dev/stdout is such a link."""
    with (tmp_path / "file").open("wb") as file:
        (tmp_path / "link").symlink_to(f"/proc/self/fd/{file.fileno()}")
        with pytest.raises(UserError, match="link is a folder, a device or a pipe, and a checkpoint is a file"):
            writing.save(checkpoint(), tmp_path / "link")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link"]


def test_a_link_to_a_checkpoint_of_another_run_is_replaced(tmp_path):
    """A run that begins with a link to a checkpoint overwrote the linked file. fairseq replaces the link."""
    writing.save(checkpoint(1.0), tmp_path / "other.pt")
    before = (tmp_path / "other.pt").read_bytes()
    (tmp_path / "checkpoint_last.pt").symlink_to("other.pt")
    writing.save(checkpoint(2.0), tmp_path / "checkpoint_last.pt")
    assert (tmp_path / "other.pt").read_bytes() == before
    assert not (tmp_path / "checkpoint_last.pt").is_symlink()
    assert check_file(tmp_path / "checkpoint_last.pt", "unused")


def test_a_directory_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(UserError, match=r"last\.pt cannot be written \(No such file or directory\)"):
        writing.save(checkpoint(), tmp_path / "gone" / "last.pt")


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_parameters_that_are_not_finite_are_not_kept_unless_as_evidence(tmp_path, number):
    with pytest.raises(UserError, match="training diverged: weight is not finite any more"):
        writing.save(checkpoint(number), tmp_path / "checkpoint_last.pt")
    assert not list(tmp_path.iterdir())
    writing.save(checkpoint(number), tmp_path / "crash.pt")
    assert torch.load(tmp_path / "crash.pt", weights_only=True)["model"]["weight"].isfinite().logical_not().all()


# --- manifest -------------------------------------------------------------------------------------------------------


def test_sha256sum_reads_the_manifest(tmp_path):
    for number in (1, 2):
        writing.save(checkpoint(number), tmp_path / f"checkpoint {number}.pt")
    writing.copy(tmp_path / "checkpoint 2.pt", tmp_path / "checkpoint_last.pt")
    done = subprocess.run(["sha256sum", "--check", "--strict", NAME], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout.splitlines() == ["checkpoint 1.pt: OK", "checkpoint 2.pt: OK", "checkpoint_last.pt: OK"]


def test_a_process_killed_before_or_after_the_file_takes_its_place_leaves_it_intact(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(OLD)
    Manifest(tmp_path).confirm({"file": hashlib.sha256(OLD).hexdigest()})
    for _ in range(3):  # killed three times, immediately before it replaces the old file
        Manifest(tmp_path).expect("file", hashlib.sha256(NEW).hexdigest())
        assert check_file(path, "unused")
    path.write_bytes(NEW)  # killed once more, immediately after it has replaced the old file
    assert check_file(path, "unused")
    path.write_bytes(b"what nobody has written")
    with pytest.raises(Damaged, match="has changed since its checksum was written"):
        check_file(path, "get another")


def test_a_checkpoint_copied_to_another_name_is_intact_and_data_is_not(tmp_path):
    writing.save(checkpoint(1.0), tmp_path / "checkpoint1.pt")
    writing.save(checkpoint(2.0), tmp_path / "checkpoint_last.pt")
    (tmp_path / "checkpoint_last.pt").write_bytes((tmp_path / "checkpoint1.pt").read_bytes())
    with pytest.raises(Damaged, match="has changed since"):
        check_file(tmp_path / "checkpoint_last.pt", "get another")
    assert read_checkpoint(tmp_path / "checkpoint_last.pt")["model"]["weight"].eq(1.0).all()


def test_what_another_process_writes_meanwhile_is_kept(tmp_path):
    """Test a manifest that ``wean-average`` and a training change, each after reading it before the other's change."""
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(OLD)
    first, second = Manifest(tmp_path), Manifest(tmp_path)
    first.confirm({"a": "1" * 64})
    second.expect("b", "2" * 64)
    first.forget("a")
    assert Manifest(tmp_path).digests == {"b": ["2" * 64]}


def test_a_checkpoint_that_fairseq_writes_asynchronously_has_no_checksum_any_more(tmp_path):
    path = tmp_path / "checkpoint_last.pt"
    writing.save(checkpoint(1.0), path)
    save = checkpoint_utils.torch_persistent_save.patch.replacement
    save(lambda state, name, _: torch.save(state, name), checkpoint(2.0), str(path), async_write=True)
    assert read_checkpoint(path)["model"]["weight"].eq(2.0).all()


def test_many_processes_can_write_one_manifest_at_once(tmp_path):
    program = (
        "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[1])\n"
        # this avoids importing the whole plugin
        "import types; sys.modules['wean_fairseq'] = types.ModuleType('wean_fairseq')\n"
        "sys.modules['wean_fairseq'].__path__ = [sys.argv[1] + '/wean_fairseq']\n"
        "from wean_fairseq.storage.manifest import Manifest\n"
        "for number in range(8): Manifest(Path(sys.argv[2])).confirm({f'{sys.argv[3]}-{number}': '0' * 64})\n"
    )
    for name in "abcd":
        for number in range(8):
            (tmp_path / f"{name}-{number}").touch()
    root = Path(__file__).resolve().parents[3]
    started = [subprocess.Popen([sys.executable, "-c", program, root, tmp_path, name]) for name in "abcd"]
    assert [process.wait() for process in started] == [0] * 4
    assert len(Manifest(tmp_path).digests) == 32


def test_files_that_are_gone_are_forgotten(tmp_path):
    for number in (1, 2):
        writing.save(checkpoint(number), tmp_path / f"checkpoint{number}.pt")
    (tmp_path / "checkpoint1.pt").unlink()
    writing.save(checkpoint(3), tmp_path / "checkpoint3.pt")
    assert sorted(Manifest(tmp_path).digests) == ["checkpoint2.pt", "checkpoint3.pt"]
    for name in ("checkpoint2.pt", "checkpoint3.pt"):
        Manifest(tmp_path).forget(name)
    assert not (tmp_path / NAME).exists(), "an empty file would be refused"


def test_a_file_without_a_checksum_is_not_compared(tmp_path):
    (tmp_path / "file").write_bytes(OLD)
    assert not check_file(tmp_path / "file", "unused")


@pytest.mark.parametrize("content", [b"not a checksum\n", b"\xff\xfe\n", b""], ids=["no checksum", "no text", "empty"])
def test_a_damaged_manifest_is_one_sentence(tmp_path, content):
    (tmp_path / NAME).write_bytes(content)
    with pytest.raises(UserError, match=f"{NAME}.* to continue without checksums"):
        Manifest(tmp_path)


# --- archives -------------------------------------------------------------------------------------------------------


def test_every_flipped_byte_of_the_parameters_is_seen(tmp_path):
    """Test flipped bytes, which torch does not notice, because it does not check the CRC-32 of each part."""
    path = tmp_path / "checkpoint.pt"
    torch.save(checkpoint(), path)
    whole = path.read_bytes()
    assert is_whole_archive(path)
    begin = whole.index(torch.ones(3, 400).numpy().tobytes())
    for place in range(begin, begin + 4800, 479):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert not torch.equal(torch.load(path, weights_only=True)["model"]["weight"], torch.ones(3, 400))
        assert not is_whole_archive(path)


def test_every_cut_is_seen(tmp_path):
    path = tmp_path / "checkpoint.pt"
    torch.save(checkpoint(), path)
    whole = path.read_bytes()
    for length in range(0, len(whole), len(whole) // 23):
        path.write_bytes(whole[:length])
        assert not is_whole_archive(path)


def test_a_checkpoint_with_the_content_of_another_is_reported(tmp_path, caplog):
    """fairseq copies the best checkpoint to the last one. A user may do it to go back to an earlier epoch."""
    for number, name in enumerate(("checkpoint_last.pt", "checkpoint1.pt", "checkpoint2.pt")):
        writing.save(checkpoint(number), tmp_path / name)
    names = [str(tmp_path / name) for name in ("checkpoint2.pt", "checkpoint_last.pt")]
    checkpoint_utils.PathManager.copy(*names, overwrite=True)
    check_intact(tmp_path / "checkpoint_last.pt")
    assert "has the content" not in caplog.text
    os.replace(tmp_path / "checkpoint1.pt", tmp_path / "checkpoint_last.pt")
    check_intact(tmp_path / "checkpoint_last.pt")
    assert "checkpoint_last.pt has the content of checkpoint1.pt: if that is intended, run wean-checksum" in caplog.text


def test_text_is_written_as_utf8(tmp_path):
    write_text(tmp_path / "text", "ä\n")
    assert (tmp_path / "text").read_bytes() == b"\xc3\xa4\n"


@pytest.mark.parametrize("beginning", [b"", b"\x80\x02", b"PK\x03\x04"])
def test_a_sparse_file_is_not_read_to_its_end(tmp_path, beginning):
    """Test a file of 1 TiB. An earlier wean-generate hashed such a file for hours before it loaded it."""
    path = tmp_path / "sparse.pt"
    path.write_bytes(beginning)
    os.truncate(path, 1 << 40)
    with pytest.raises(OSError, match="sparse"):
        sha256_of(path)
    with pytest.raises(Damaged, match=r"sparse\.pt is damaged"):
        check_intact(path)


def test_a_large_file_without_holes_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_LARGE", 10)
    (tmp_path / "a").write_bytes(b"a" * 11)
    assert sha256_of(tmp_path / "a") == hashlib.sha256(b"a" * 11).hexdigest()


# --- JSON -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ['{"a": 1, "b": 2, "a": 1}', '[{"x": {"a": 1, "a": 2}}]'])
def test_a_repeated_key_is_refused(text):
    """Python keeps the last value of a repeated key, which would hide the mistake of a person who edits the file."""
    with pytest.raises(ValueError, match="it has 'a' more than once"):
        json_files.parse_json(text)
    assert json_files.parse_json(text.replace('"a"', '"c"', 1)) is not None


@pytest.mark.parametrize("text", ['{"\\ud800": 1}', '["a\\uDFFF"]', '["\\ude00\\ud83d"]'])
def test_half_of_a_surrogate_pair_is_refused(tmp_path, text):
    """Such a text can be neither printed nor written, so that an error without explanation would follow."""
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(ValueError, match="surrogates not allowed"):
        json_files.read_json(tmp_path / "a.json")
    (tmp_path / "a.json").write_text('\ufeff["\\ud83d\\ude00"]', encoding="utf-8")
    assert json_files.read_json(tmp_path / "a.json") == ["\U0001f600"]
    assert json_files.parse_json('["\\ud83d\\ude00"]') == ["\U0001f600"]


@pytest.mark.parametrize("folder", [".", "..", "../here", "/proc/self/cwd", "../../outer"])
def test_the_current_directory_and_its_parents_are_not_replaced(tmp_path, monkeypatch, folder):
    here = tmp_path / "outer" / "here"
    here.mkdir(parents=True)
    (here / "file").touch()
    monkeypatch.chdir(here)
    before = sorted(tmp_path.rglob("*"))
    refused = pytest.raises(OSError, match="it would replace the current directory")
    with refused, files.whole_folder(Path(folder), replace=True):
        pytest.fail("the new folder was made")
    assert sorted(tmp_path.rglob("*")) == before
    with files.whole_folder(Path("below"), replace=True):
        pass
    assert (here / "below").is_dir()


@pytest.mark.parametrize(
    ("content", "number"),
    [(b"", 0), (b"\n", 1), (b"a", 1), (b"a\n", 1), (b"a\rb\r\nc", 2), (b"\n\na", 3), (b"ab\n" * 3 + b"abc", 4)],
)
def test_lines_are_counted_in_pieces(tmp_path, monkeypatch, content, number):
    """The numbers are by hand. Only a line feed ends a line. A line may be larger than a piece."""
    monkeypatch.setattr(files, "_PIECE", 2)
    (tmp_path / "text").write_bytes(content)
    assert files.count_lines(tmp_path / "text") == number
