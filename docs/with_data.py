"""Run a page of the documentation on your own data: python docs/with_data.py PAGE --data PATH [--out PAGE.ipynb].

PAGE is one of course/08_digits, course/09_restricted, users/images (`mnist.npz` or a file of the same four members),
course/11_neurons and users/neurons (rows of bins and cells, "FILE.mat:VARIABLE" and what else `bm.data.load` takes, or
spike times, "FILE.nwb"). The cell of the page that makes its data, tagged "data", is replaced, cells tagged "planted",
which know the truth, are left out, and the page as it ran is written as a notebook.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

HEAD = "import matplotlib.pyplot as plt\nimport numpy as np\n\nimport fastbm as bm\n\n"
IMAGES = """with np.load({path!r}) as file:
    images, labels = (np.concatenate([file["train_" + part], file["test_" + part]]) for part in ("images", "labels"))
    n_train = len(file["train_labels"])
side = images.shape[-1] if images.ndim == 3 else round(images.shape[-1] ** 0.5)
pixels = images.reshape(len(images), -1)
rows = (pixels > pixels.max() / 2).astype(np.uint8)
"""
SOME = """chance = np.random.default_rng(1)  # rows lie in the order of their digits
some = np.concatenate([chance.permutation(n_train)[:10_000], n_train + chance.permutation(len(rows) - n_train)[:2_000]])
pixels, labels, rows = pixels[some], labels[some], rows[some]
train, {held} = np.split(rows, [min(n_train, 10_000)])
"""
CELLS = """if {path!r}.split(":")[0].endswith(".nwb"):
    binned = bm.data.from_spike_times({path!r}, bin_width=0.02)
    rows, trial = binned.rows[:, :10], binned.trial
else:
    rows = np.asarray(bm.data.load({path!r}).rows[:, :10], dtype=np.uint8)
    trial = np.zeros(len(rows), int)
"""
PARTS = """from types import SimpleNamespace

trial = trial if trial.any() else np.arange(len(rows)) // 1_000  # parts of the recording stand for trials
binned = SimpleNamespace(rows=rows, trial=trial)
"""
DATA = {  # in place of the cell that makes the page's data
    "course/08_digits": HEAD + IMAGES + "train, test = slice(0, n_train), slice(n_train, None)\n",
    "course/09_restricted": HEAD + IMAGES + SOME.replace("{held}", "holdout"),
    "users/images": HEAD + IMAGES + SOME.replace("{held}", "test"),
    "course/11_neurons": HEAD + CELLS,
    "users/neurons": HEAD + CELLS + PARTS,
}


def notebook_of(page: str, path: str | Path) -> Any:
    """Return a page as a notebook that reads its data from a path, and has not run yet."""
    from myst_nb.core.read import read_myst_markdown_notebook

    text = (Path(__file__).parent / f"{page}.md").read_text(encoding="utf-8")
    notebook = read_myst_markdown_notebook(text)
    file, colon, member = str(path).partition(":")
    source = str(Path(file).expanduser().resolve()) + colon + member
    kept, replaced = [], 0
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        if "data" in tags:
            cell.source, replaced = DATA[page].replace("{path!r}", repr(source)), replaced + 1
        if "planted" not in tags:
            kept.append(cell)
    assert replaced == 1, f"{page} has {replaced} cells tagged data"
    notebook.cells = kept
    return notebook


def run(page: str, path: str | Path, *, timeout: float = 3600.0) -> Any:
    """Return a page as it ran on data of a path."""
    from nbclient import NotebookClient

    notebook = notebook_of(page, path)
    NotebookClient(notebook, timeout=timeout, kernel_name="python3").execute()
    return notebook


def printed(notebook: Any) -> str:
    """Return what the cells of a notebook printed."""
    outputs = [one for cell in notebook.cells for one in cell.get("outputs", [])]
    return "".join(one.text for one in outputs if one.output_type == "stream" and one.name == "stdout")


def main() -> None:
    """Run a page from the command line."""
    import nbformat

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", choices=sorted(DATA), metavar="PAGE")
    parser.add_argument("--data", required=True, metavar="PATH")
    parser.add_argument("--out", type=Path, metavar="PAGE.ipynb")
    given = parser.parse_args()
    notebook = run(given.page, given.data)
    out = given.out or Path(f"{re.sub('.*/', '', given.page)}.ipynb")
    nbformat.write(notebook, out)
    print(printed(notebook) + f"written: {out}")


if __name__ == "__main__":
    main()
