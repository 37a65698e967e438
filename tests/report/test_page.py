"""A run as a page of HTML: of every kind, from strangers, damaged and unfinished; and in a browser."""

from __future__ import annotations

import os
import re
import shutil
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm.cli import main
from fastbm.report.page import as_toml, write_page
from tests.support import runs

VOID = {"meta", "link", "img", "br"}


class Balanced(HTMLParser):
    """Whether every tag is closed, in order; and what is loaded from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [value for name, value in attrs if name in ("src", "href") and value]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def read(path: Path) -> str:
    text = path.read_text()
    parser = Balanced()
    parser.feed(text)
    assert not parser.open and "<script" not in text
    assert all(value.startswith("data:") for value in parser.loads)
    return text


def kinds(folder: Path) -> list[Path]:
    model = bm.models.curie_weiss(6)
    runs.sample(folder / "sample.h5")
    runs.fit(folder / "fit.h5")
    bm.sample(model, "tempering", beta=1.0, n_chains=4, n_sweeps=50, seed=2, out=folder / "ladder.h5")
    bm.infer(model, "exact", out=folder / "infer.h5")
    bm.compare({"<b>bold</b>": model}, ["exact", "tap"], out=folder / "compare.h5")
    names = ["naive-mean-field", "independent-pair"]
    bm.compare_rules({"planted": bm.models.curie_weiss(4)}, names, n_rows=[100], out=folder / "rules.h5")
    return sorted(folder.glob("*.h5"))


@pytest.mark.filterwarnings("ignore")
def test_runs_of_every_kind(tmp_path: Path) -> None:
    for out in kinds(tmp_path):
        place, whole = write_page(out, None)
        run, text = bm.open(out), read(place)
        assert whole and place == out.with_suffix(".html")
        for said in (run.verdict, "data:image/png", f"fastbm verify {out}", run.meta["numba_version"]):
            assert said.replace("<", "&lt;").replace(">", "&gt;") in text, (out.name, said)
    assert "&lt;b&gt;bold&lt;/b&gt;" in read(tmp_path / "compare.html")
    assert "specific heat" in read(tmp_path / "ladder.html")


def test_a_file_whose_name_is_no_text_has_a_page(tmp_path: Path) -> None:
    run = runs.sample(Path(os.fsdecode(os.fsencode(tmp_path / "r") + b"\xff.h5")))
    assert r"fastbm verify $&#x27;" in read(write_page(run.path, None)[0])


def test_settings_are_those_of_a_file_that_runs(tmp_path: Path) -> None:
    out = tmp_path / "run.h5"
    source = Path(__file__).parents[2] / "runs" / "ising.toml"
    changes = ["sample.n_chains=20", "sample.n_sweeps=20", "sample.thin=1", "sample.burn_in=5", "sample.initial=random"]
    with pytest.raises(SystemExit) as left:
        main(["run", str(source), "--out", str(out), "-q", *(f"--set={change}" for change in changes)])
    assert left.value.code == 0
    write_page(out, None)
    (text,) = re.findall(r"takes:</p><pre>(.*?)</pre>", read(tmp_path / "run.html"), re.DOTALL)
    again = tomllib.loads(text.replace("&quot;", '"'))
    assert again["sample"]["n_sweeps"] == 20 and again["model"]["shape"] == [16, 16]


@pytest.mark.parametrize("tables", [{"a": {"b c": [1, 2.5, 'x"y\n'], "d": {"e": True}}, "f": "g"}, {"a": {}}])
def test_toml_that_is_written_is_read_alike(tables: dict[str, Any]) -> None:
    assert tomllib.loads(as_toml(tables)) == tables


@pytest.mark.filterwarnings("ignore")
def test_what_is_no_page_of_ours_is_kept(tmp_path: Path) -> None:
    run = runs.sample(tmp_path / "run.h5")
    (tmp_path / "run.html").write_text("<html>mine</html>")
    with pytest.raises(bm.StorageError, match="no page of fastbm"):
        write_page(run.path, None)
    assert (tmp_path / "run.html").read_text() == "<html>mine</html>"
    for _ in range(2):  # a page of ours is replaced
        write_page(run.path, tmp_path / "other.html")
    (tmp_path / "text.h5").write_text("text")
    with pytest.raises(bm.StorageError, match=r"text\.h5"):
        write_page(tmp_path / "text.h5", None)
    assert not (tmp_path / "text.html").exists()


@pytest.mark.filterwarnings("ignore")
def test_of_a_damaged_run_what_is_whole_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = runs.sample(tmp_path / "run.h5", n_sweeps=300, commit_bytes=1000, merge=False)
    segments = sorted(Path(f"{run.path}.parts").glob("*.h5"))
    data = bytearray(segments[-2].read_bytes())
    data[len(data) // 2] ^= 1
    segments[-2].write_bytes(data)
    with pytest.raises(SystemExit) as left:
        main(["report", str(run.path)])
    assert left.value.code == 1 and "is damaged" in capsys.readouterr().err
    text = read(tmp_path / "run.html")
    assert "damaged:" in text and 'class="verdict bad"' in text


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_in_a_browser(tmp_path: Path) -> None:
    """No error, all pictures there, and nothing but tables scrolls sideways on a telephone, in light and dark."""
    browser = shutil.which("chromium")
    if browser is None:
        assert not os.environ.get("CI"), "chromium is missing"
        pytest.skip("chromium is not installed")
    playwright = pytest.importorskip("playwright.sync_api")
    kinds(tmp_path)
    with playwright.sync_playwright() as driver:
        window = driver.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        for out in sorted(tmp_path.glob("*.h5")):
            for scheme in ("light", "dark"):
                page = window.new_page(viewport={"width": 375, "height": 800}, color_scheme=scheme)
                errors: list[str] = []
                page.on("console", lambda message, errors=errors: errors.append(message.text))
                page.on("requestfailed", lambda request, errors=errors: errors.append(request.url))
                page.goto(write_page(out, None)[0].as_uri())
                assert page.evaluate("document.documentElement.scrollWidth") == 375, out.name
                widths = page.evaluate("[...document.images].map(image => image.naturalWidth)")
                assert widths and np.all(np.array(widths) > 300) and not errors
                paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
                assert (paper == "rgb(245, 246, 248)") == (scheme == "light")
                page.close()
        window.close()
