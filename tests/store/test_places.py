"""Places that cannot take a run are refused at once, by name and with the way out, and nothing is changed there."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fastbm as bm
from fastbm.store import merge_parts, open_reader, place as mounts, resume
from fastbm.store.names import Names
from fastbm.store.place import foreign_files
from fastbm.store.verification import verify
from tests.support import crash, store
from tests.support.places import listing, unchanged
from tests.support.store import N_BLOCKS, append, begin, begun, check_rows, complete

tmp_path = store.tmp_path
ACTS = (open_reader, resume, merge_parts, verify, begin, lambda path: begin(path, overwrite=True))
READING = ACTS[:4]
NOBODY = 65534


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("s3://bucket/x.h5", "'s3://bucket/x.h5' is a URL, and runs are local files. Write to a local path and copy"),
        (Path("gs://bucket/x.h5"), "'gs:/bucket/x.h5' is a URL"),
        ("file:///tmp/x.h5", "is a URL"),
        ("HTTPS://host/x.h5", "is a URL"),
        ("", "is empty. Name a file"),
        ("/", "'/' names a folder and no file."),
        (".", "'.' names a folder and no file."),
        ("a/..", "'a/..' names a folder and no file."),
        (".parts", "'.parts' names a folder and no file."),
        ("a\0b.h5", "zero character"),
    ],
)
def test_paths_that_name_no_local_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[Any], Any], path: Any, text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    unchanged(tmp_path, lambda: act(path), text, error=ValueError)


def test_a_path_written_as_a_folder(tmp_path: Path) -> None:
    unchanged(tmp_path, lambda: begin(f"{tmp_path}/new/"), "ends with '/' and so names a folder", error=ValueError)
    unchanged(tmp_path, lambda: begin(os.fsencode(tmp_path / "x.h5")), "must be text", error=TypeError)
    begun(tmp_path / "run.h5")
    with resume(f"{tmp_path}/run.h5.parts/") as writer:  # as shells complete it
        assert writer.n_blocks == 6


def test_runs_refuse_the_same(tmp_path: Path) -> None:
    model = bm.BoltzmannMachine([[0.0, 1.0], [1.0, 0.0]])
    for out in ("s3://bucket/x.h5", f"{tmp_path}/"):
        unchanged(tmp_path, lambda out=out: bm.sample(model, n_sweeps=4, out=out), "", error=ValueError)


def make_folder(path: Path) -> None:
    path.mkdir()


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (make_folder, "a folder"),
        (os.mkfifo, "a FIFO"),
        (make_socket, "a socket"),
        (lambda path: path.symlink_to("/dev/full"), "a device"),
        (lambda path: path.symlink_to("/dev/null"), "a device"),
    ],
)
def test_something_else_than_a_file(
    tmp_path: Path, act: Callable[[Any], Any], make: Callable[[Path], None], kind: str
) -> None:
    path = tmp_path / "run.h5"
    make(path)
    unchanged(tmp_path, lambda: act(path), f"{path} is not a fastbm run (it is {kind}).")


@pytest.mark.parametrize("act", READING)
def test_reading_where_nothing_can_lie(tmp_path: Path, act: Callable[[Any], Any]) -> None:
    (tmp_path / "file").write_text("x")
    unchanged(tmp_path, lambda: act(tmp_path / "file" / "run.h5"), "")
    unchanged(tmp_path, lambda: act(tmp_path / ("x" * 300)), "File name too long")
    (tmp_path / "run.h5").symlink_to("nowhere.h5")
    unchanged(tmp_path, lambda: act(tmp_path / "run.h5"), "does not exist")
    (tmp_path / "run.h5.parts").write_text("x")
    unchanged(tmp_path, lambda: act(tmp_path / "run.h5"), "does not exist")


@pytest.mark.parametrize("overwrite", [False, True])
def test_writing_where_nothing_can_lie(tmp_path: Path, overwrite: bool) -> None:
    def refuse(path: str, text: str) -> None:
        unchanged(tmp_path, lambda: begin(tmp_path / path, overwrite=overwrite), text)

    (tmp_path / "file").write_text("x")
    refuse("file/run.h5", f"{tmp_path}/file is not a folder. Nothing was changed. Write elsewhere.")
    refuse("file/a/b/run.h5", f"{tmp_path}/file is not a folder.")
    refuse("x" * 300, "File name too long")
    refuse("x" * 252, "File name too long")  # only that of the parts is
    refuse("new/folder/" + "x" * 252, "File name too long")
    (tmp_path / "run.h5").symlink_to("nowhere.h5")
    refuse("run.h5", "run.h5 is a link to nowhere.h5, which does not exist. Nothing was changed. Move it or write")
    (tmp_path / "a.h5.parts").write_text("x")
    refuse("a.h5", "a.h5.parts is not a folder.")
    (tmp_path / "b.h5.parts").symlink_to("nowhere")
    refuse("b.h5", "b.h5.parts is a link to nowhere, which does not exist.")
    (tmp_path / "d.h5.parts").symlink_to(tmp_path)
    refuse("d.h5", f"d.h5.parts is a link to {tmp_path}.")
    (tmp_path / "loop.h5").symlink_to("loop.h5")
    refuse("loop.h5", "")
    unchanged(tmp_path, lambda: begin(Path("/proc/run.h5"), overwrite=overwrite), "cannot write /proc/run.h5: ")


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_of_other_files_is_not_taken(tmp_path: Path, overwrite: bool) -> None:
    path, parts = tmp_path / "run.h5", tmp_path / "run.h5.parts"
    parts.mkdir()
    for name in ("notes.txt", "state-00000001.h5", "seg-00000001.h5.bad"):
        (parts / name).write_text("thesis")
        text = f"run.h5.parts holds files that are not of a run ({name})."
        unchanged(tmp_path, lambda: begin(path, overwrite=overwrite), text)
        (parts / name).unlink()
    for n, more in ((3, "(a, b, c)"), (5, "(a, b, c and 2 more)")):
        for name in "abcde"[:n]:
            (parts / name).write_text("thesis")
        unchanged(tmp_path, lambda: begin(path, overwrite=overwrite), f"are not of a run {more}.")
    for name in "abcde":
        (parts / name).unlink()
    (parts / "lock").write_text("my own")
    unchanged(tmp_path, lambda: begin(path, overwrite=overwrite), "run.h5.parts/lock is not a lock of fastbm.")
    (parts / "lock").unlink()
    (parts / "lock").symlink_to("/dev/null")
    unchanged(tmp_path, lambda: begin(path, overwrite=overwrite), "")
    (parts / "lock").unlink()
    os.mkfifo(parts / "lock")
    unchanged(tmp_path, lambda: begin(path, overwrite=overwrite), "is not a lock of fastbm.")
    (parts / "lock").unlink()
    (parts / "lock").write_bytes(bytes(60))  # of a text that a power cut took
    (parts / ".DS_Store").write_text("x")
    (parts / "seg-00000000.h5.tmp").write_text("cut off")
    complete_here = begin(path, overwrite=overwrite)
    with complete_here as writer:
        append(writer, 0, N_BLOCKS)
        writer.finish(store.state_after(N_BLOCKS))
    assert sorted(listing(tmp_path)) == ["run.h5", "run.h5.parts", "run.h5.parts/.DS_Store"]


def test_a_file_that_a_writer_names_meanwhile_is_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts, listing_of = tmp_path / "run.h5.parts", os.listdir
    parts.mkdir()
    (parts / "seg-00000000.h5.tmp").write_text("a first segment")

    def listdir(path: Path) -> list[str]:
        found = listing_of(path)
        if "seg-00000000.h5.tmp" in found:
            (parts / "seg-00000000.h5.tmp").rename(parts / "seg-00000000.h5")
        return found

    monkeypatch.setattr(os, "listdir", listdir)
    assert foreign_files(Names(tmp_path / "run.h5")) == []


@pytest.mark.parametrize(
    "name", ["with blanks.h5", "Größe-模型.h5", "two\nlines.h5", "no suffix", "-dash.h5", "%s{0}.h5"]
)
def test_unusual_names_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with begin(Path(name)) as writer:
        append(writer, 0, 2)
        monkeypatch.chdir(tmp_path / "elsewhere")
        append(writer, 2, 3)
    monkeypatch.chdir(tmp_path)
    complete(Path(name))
    with open_reader(name) as reader:
        check_rows(reader, N_BLOCKS)
    assert sorted(listing(tmp_path)) == sorted(["elsewhere", name])


def test_missing_folders_are_made_and_taken_away_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a" / "b" / "run.h5"
    no_space = OSError(errno.ENOSPC, "No space left on device")

    def fail(*arguments: Any) -> int:
        raise no_space

    with monkeypatch.context() as patch:
        patch.setattr("fastbm.store.disk.create", fail)
        unchanged(tmp_path, lambda: begin(path), "no space left in")
        patch.setattr("os.open", fail)
        unchanged(tmp_path, lambda: begin(path), f"cannot write {path}: No space left on device")
    begun(path)
    assert path.with_name("run.h5.parts").is_dir()


def as_nobody(act: Callable[[], None]) -> None:
    """Do `act` in a child that has no rights of its own."""

    def child() -> None:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        act()

    assert crash.run_child(child) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="takes the rights from a child of root")
def test_without_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    whole, path = complete(tmp_path / "whole.h5"), tmp_path / "run.h5"
    parts = begun(path)

    def cannot_write() -> None:
        for act in (begin, lambda one: begin(one, overwrite=True)):
            unchanged(tmp_path, lambda act=act: act(tmp_path / "new.h5"), f"Permission denied (in {tmp_path}).")
            unchanged(tmp_path, lambda act=act: act(tmp_path / "a" / "new.h5"), f"Permission denied (in {tmp_path}).")
        unchanged(tmp_path, lambda: resume(path), f"cannot write {path}: Permission denied")
        unchanged(tmp_path, lambda: begin(path, overwrite=True), "Permission denied")
        with open_reader(path) as reader, open_reader(whole) as other:
            check_rows(reader, 6)
            check_rows(other, N_BLOCKS)
        assert verify(path).sound
        assert resume(whole).finished

    as_nobody(cannot_write)
    before = listing(tmp_path)
    (parts / "seg-00000000.h5").chmod(0o600)
    whole.chmod(0o600)

    def cannot_read() -> None:
        for act in ACTS[:5]:
            for one in (path, whole):
                with pytest.raises(bm.StorageError, match=r"Permission denied|exists") as caught:
                    act(one)
                assert str(one) in str(caught.value)

    as_nobody(cannot_read)
    parts.chmod(0o700)
    as_nobody(cannot_read)
    parts.chmod(0o755)
    for one in (parts / "seg-00000000.h5", whole):
        one.chmod(0o644)
    assert listing(tmp_path) == before


def test_a_read_only_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, path = complete(tmp_path / "whole.h5"), tmp_path / "run.h5"
    begun(path)
    truth = os.open

    def read_only(name: Any, flags: int, *more: Any, **options: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), name)
        return truth(name, flags, *more, **options)

    monkeypatch.setattr(os, "open", read_only)
    unchanged(tmp_path, lambda: resume(path), f"cannot write {path}: Read-only file system (in {tmp_path}).")
    unchanged(tmp_path, lambda: begin(path, overwrite=True), "Read-only file system")
    unchanged(tmp_path, lambda: begin(tmp_path / "a" / "b.h5"), "Read-only file system")
    with open_reader(path) as reader:
        check_rows(reader, 6)
    assert resume(whole).finished
    assert merge_parts(whole) == str(whole)


TABLE = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:27 / /mnt/bucket rw,nosuid - fuse.s3fs s3fs rw
31 22 0:28 / /mnt/bucket/two\\040words rw shared:3 master:1 - fuse.sshfs node7:/data rw
32 22 0:29 / /mnt/other rw - fuse rclone rw
33 22 0:30 / /mnt/other rw - nfs4 server:/x rw
nonsense
"""


@pytest.mark.parametrize(
    ("place", "mount"),
    [
        ("/home/me", ("/", "ext4")),
        ("/mnt/bucket", ("/mnt/bucket", "fuse.s3fs")),
        ("/mnt/bucket/a/b", ("/mnt/bucket", "fuse.s3fs")),
        ("/mnt/buckets", ("/", "ext4")),
        ("/mnt/bucket/two words/x", ("/mnt/bucket/two words", "fuse.sshfs")),
        ("/mnt/other/x", ("/mnt/other", "nfs4")),
    ],
)
def test_the_mount_of_a_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, mount: tuple[str, str]
) -> None:
    (tmp_path / "table").write_text(TABLE)
    monkeypatch.setattr(mounts, "_TABLE", tmp_path / "table")
    assert mounts.mount_of(Path(place)) == mount
    monkeypatch.setattr(mounts, "_TABLE", tmp_path / "absent")
    assert mounts.mount_of(Path(place)) == ("", "")


def test_a_mount_of_an_object_store_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.path.realpath(tmp_path)
    (tmp_path / "table").write_text(f"30 22 0:27 / {real} rw - fuse.s3fs s3fs rw\n")
    monkeypatch.setattr(mounts, "_TABLE", tmp_path / "table")
    text = r"run.h5 lies on fuse.s3fs at .*: an object store behind it renames by copying. So .* copy the finished file"
    with pytest.warns(UserWarning, match=text):
        writer = begin(tmp_path / "run.h5")
    writer.close()
    with pytest.warns(UserWarning, match=text):
        resume(tmp_path / "run.h5").close()


def test_the_first_files_are_plain(tmp_path: Path) -> None:
    parts = begun(tmp_path / "run.h5")
    assert all(stat.S_ISREG(path.stat().st_mode) for path in parts.iterdir())


def test_a_home_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    complete(Path("~/runs/run.h5"))
    assert listing(tmp_path).keys() == {"runs", "runs/run.h5"}
    with open_reader("~/runs/run.h5") as reader:
        check_rows(reader, N_BLOCKS)


def test_a_link_is_read_and_replaced_only_if_asked(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    target, link = complete(tmp_path / "scratch" / "run.h5"), tmp_path / "link.h5"
    link.symlink_to(target)
    with open_reader(link) as reader:
        check_rows(reader, N_BLOCKS)
    text = f"{link} is a link to {target}, and would be replaced. Nothing was changed."
    unchanged(tmp_path, lambda: resume(link, extend_spec={**store.SPEC, "n_chains": 8}), text)
    unchanged(tmp_path, lambda: begin(link), "link.h5 exists.")
    with resume(target, extend_spec={**store.SPEC, "n_chains": 8}) as writer:
        writer.finish(writer.state)
    resume(target, extend_spec={**store.SPEC, "n_chains": 9}).close()
    target.with_name("run.h5.parts").rename(tmp_path / "link.h5.parts")
    unchanged(tmp_path, lambda: resume(link), text)
    shutil.rmtree(tmp_path / "link.h5.parts")
    target.unlink()
    unchanged(tmp_path, lambda: open_reader(link), f"no such run, but a link to {target}, which is not there.")
    kept = complete(target).read_bytes()
    complete(link, overwrite=True)
    assert not link.is_symlink() and link.is_file()
    assert target.read_bytes() == kept


def test_what_a_kill_before_the_first_commit_leaves_is_told(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    path.with_name("run.h5.parts").mkdir()
    (tmp_path / "run.h5.parts" / "lock").touch()
    for act in (open_reader, resume, verify):
        text = f"{path} does not exist: no such run, and {path}.parts holds no commit."
        unchanged(tmp_path, lambda act=act: act(path), text)
    begin(path).close()
