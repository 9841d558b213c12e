"""Commands that study fits rather than make one: ``partonfit closure`` and ``partonfit compare``."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from partonfit import _console

Output = Annotated[Path, typer.Option("--output", "-o", help="Folder to write to.", metavar="DIR")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there already.")]


def closure(
    card: Annotated[str, typer.Argument(help="A runcard (YAML), or 'hera' for the embedded data.", metavar="CARD")],
    output: Output,
    fits: Annotated[int, typer.Option(help="Number of fits, each with fake data of its own.")] = 25,
    replicas: Annotated[int, typer.Option(help="Number of replicas of each fit.")] = 40,
    pdf: Annotated[str, typer.Option(help="The known law: 'toy', or a folder with an LHAPDF set or a fit.")] = "toy",
    seed: Annotated[int | None, typer.Option(help="Seed, instead of the card's.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Largest number of epochs, instead of the card's.")] = None,
    theory: Annotated[str | None, typer.Option(help="Theory (name or folder), instead of the card's.")] = None,
    overwrite: Overwrite = False,
) -> None:
    """Test on fake data from a known law whether the uncertainties of a fit are faithful.

    Writes DIR/statistics.csv and .json (all numbers with errors), figure.pdf and .png, and the complete
    result for load_closure(). Ctrl-C stops the training and keeps the best weights so far.

    Example: partonfit closure hera -o closure --fits 25 --replicas 40
    """
    from partonfit import _card_lines, runcard
    from partonfit._files import check_writable

    settings = runcard.parse_card("data: hera") if card == "hera" else runcard.read_card(_console.existing_card(card))
    settings = runcard.with_changes(settings, seed=seed, epochs=epochs, theory=theory)
    check_writable(output, overwrite=overwrite)
    with _console.fit_progress() as progress, _card_lines.located(card):
        result = runcard.run_closure(
            settings, pdf=pdf, base=Path(card).parent, fits=fits, replicas=replicas, progress=progress
        )
    result.save(output, overwrite=overwrite)
    _write_study(output, result, "statistics", result.plot())
    (output / "card.yml").write_text(runcard.to_yaml(settings, seed=result.settings.get("seed")))
    out = _console.console()
    out.print(escape(str(result)))
    shown = result.to_dataframe()
    _console.table(
        "", ("", "points", "N", "ratio", "xi", "xi from the ratio"),
        [(r["kind"], r["name"], r["n_data"], *(_with_error(r, name) for name in ("ratio", "xi", "xi_expected")))
         for r in shown.to_dict("records")],
        left=2,
    )  # fmt: skip
    out.print(f"Closure test: {escape(str(output))}")
    if any(word == "interrupted" for words in result.statuses for word in words):
        _console.errors().print("[bold]Interrupted:[/] these are the best weights so far.")
        raise typer.Exit(_console.INTERRUPTED)


def compare(
    first: Annotated[Path, typer.Argument(help="Folder of a fit.", metavar="FIT")],
    second: Annotated[Path, typer.Argument(help="Folder of another fit, or of an LHAPDF set.", metavar="OTHER")],
    output: Annotated[Path, typer.Option("--output", "-o", help="A page (.html), or a folder for tables and figures.")],
    scale: Annotated[float | None, typer.Option("--Q", help="Scale of the distances [GeV]; Q0 by default.")] = None,
    overwrite: Overwrite = False,
) -> None:
    """Lay two fits side by side: distances, chi2 by dataset, ratios.

    Example: partonfit compare fit other -o comparison.html
    """
    from partonfit._files import check_writable, new_folder
    from partonfit.results import compare as lay_beside

    check_writable(output, overwrite=overwrite)
    fit, other = _console.load_fit(first), _console.load_reference(second)
    result = lay_beside(fit, other, Q=scale, labels=(first.name or str(first), second.name or str(second)))
    if output.suffix.lower() in (".html", ".htm"):
        result.report(output, overwrite=overwrite)
    else:
        with new_folder(output, overwrite=overwrite) as folder:
            result.report(folder / "comparison.html")
            _write_study(folder, result, "distances", result.plot(), "distances")
            result.chi2_table().to_csv(folder / "chi2.csv", index=False)
            for kind in ("chi2", "ratio"):
                for ending in ("pdf", "png"):
                    result.plot(kind).savefig(folder / f"{kind}.{ending}")
    out = _console.console()
    out.print(escape(str(result)))
    out.print(f"Comparison: {escape(str(output))}")


def _with_error(row: dict[str, Any], name: str) -> str:
    value, error = row[name], row[f"{name}_error"]
    return f"{value:.3f}" + (f" +- {error:.3f}" if math.isfinite(error) else "")


def _write_study(folder: Path, result: Any, name: str, figure: Any, figure_name: str = "figure") -> None:
    """Write the table of a result as CSV and JSON, and its figure as PDF and PNG, into ``folder``."""
    frame = result.to_dataframe()
    frame.to_csv(folder / f"{name}.csv", index=False)
    rows = json.loads(frame.to_json(orient="records"))  # NaN becomes null there
    (folder / f"{name}.json").write_text(json.dumps(rows, indent=1) + "\n")
    for ending in ("pdf", "png"):
        figure.savefig(folder / f"{figure_name}.{ending}")
