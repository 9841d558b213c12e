"""The command line: ``partonfit fit``, ``postfit``, ``report``, ``closure``, ``compare``, ``theory``, ``card``...

Commands import what they need when they run, so that ``--help`` and a mistyped card answer at once.
Exit codes: 0 done, 1 the work failed, 2 wrong use or setting, 130 interrupted (a fit that is
interrupted still writes its best weights, and goes on with ``--resume``).
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from partonfit import __version__, _cli_studies, _console
from partonfit._errors import SettingError, nearest

app = typer.Typer(
    cls=_console.Commands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Fit parton distribution functions with neural networks.\n\nStart with: partonfit fit hera -o fit",
)
theory_app = typer.Typer(no_args_is_help=True, help="Build, check and describe theory tables.")
data_app = typer.Typer(no_args_is_help=True, help="List and show datasets.")
app.add_typer(theory_app, name="theory")
app.add_typer(data_app, name="data")

Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there already.")]
FitFolder = Annotated[Path, typer.Argument(help="Folder of a fit, as 'partonfit fit' writes it.", metavar="DIR")]


def main() -> None:
    """Run the command line."""
    app()


def _version(wanted: bool) -> None:
    if wanted:
        _console.console().print(f"partonfit {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


@app.command()
def fit(
    card: Annotated[str, typer.Argument(help="A runcard (YAML), or 'hera' for the embedded data.", metavar="CARD")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write the fit to.", metavar="DIR")],
    replicas: Annotated[int | None, typer.Option(help="Number of replicas, instead of the card's.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed, instead of the card's.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Largest number of epochs, instead of the card's.")] = None,
    theory: Annotated[str | None, typer.Option(help="Theory (name or folder), instead of the card's.")] = None,
    lhapdf: Annotated[str | None, typer.Option(help="Also write an LHAPDF set of this name into DIR.")] = None,
    report: Annotated[bool, typer.Option("--report", help="Also write DIR/report.html.")] = False,
    overwrite: Overwrite = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a fit that was stopped or killed.")] = False,
    log: Annotated[Path | None, typer.Option(help="Write epoch and chi2 to this CSV file, about every second.")] = None,
    tensorboard: Annotated[Path | None, typer.Option(help="Write logs for TensorBoard here.", metavar="DIR")] = None,
    processes: Annotated[int | None, typer.Option(help="Processes that share this fit; Slurm's by default.")] = None,
    coordinator: Annotated[str | None, typer.Option(help="Where process 0 listens.", metavar="HOST:PORT")] = None,
    process_id: Annotated[int | None, typer.Option(help="Number of this process, from 0.")] = None,
) -> None:
    """Fit PDFs to data.

    Ctrl-C stops the training and keeps the best weights so far (exit code 130). What was reached is
    kept in DIR.checkpoint until the fit is complete: a fit that was stopped goes on with --resume.

    Example: partonfit fit hera -o fit --replicas 100 --seed 1
    """
    from partonfit import _card_lines, runcard
    from partonfit._files import check_writable, write_file

    settings = runcard.RunSettings(data="hera") if card == "hera" else runcard.read_card(_console.existing_card(card))
    settings = runcard.with_changes(settings, replicas=replicas, seed=seed, epochs=epochs, theory=theory)
    if lhapdf is not None:
        _checked_set_name(lhapdf)
    store = output.with_name(f"{output.name}.checkpoint")
    # An interrupted fit has written its best so far: the one that goes on from it replaces that.
    overwrite = overwrite or (resume and store.is_dir())
    check_writable(output, overwrite=overwrite)
    from partonfit import _together

    with _together.joined(processes, coordinator, process_id) as first, _console.fit_progress(shown=first) as progress:
        callbacks = _together.logs(log, tensorboard) if first else ()
        _together.make_room(store, resume=resume, overwrite=overwrite)
        with _card_lines.located(card):
            result = runcard.run(
                settings,
                base=Path(card).parent,
                progress=progress,
                callbacks=callbacks,
                checkpoint=store,
                resume=resume,
            )
    if not first:
        return
    result.save(output, overwrite=overwrite)
    write_file(output / "card.yml", runcard.to_yaml(settings, seed=result.settings.get("seed")))
    _print_fit(result, output)
    if lhapdf is not None:
        _evolve(result, output / lhapdf, overwrite=False, description=settings.description)
    if report:
        _report(result, output / "report.html", overwrite=False, title=settings.description or "PDF fit")
    if any(status.status == "interrupted" for status in result.statuses):
        _console.errors().print("[bold]Interrupted:[/] the best weights so far were kept. To go on: add --resume.")
        raise typer.Exit(_console.INTERRUPTED)
    _together.remove_checkpoint(store)


@app.command()
def report(
    folder: FitFolder,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The page; DIR/report.html by default.")] = None,
    title: Annotated[str, typer.Option(help="Heading of the page.")] = "PDF fit",
    to: Annotated[Path | None, typer.Option(help="LHAPDF folder or fit to compare with.")] = None,
    overwrite: Overwrite = False,
) -> None:
    """Write a fit as one self-contained HTML page.

    Example: partonfit report fit -o fit.html
    """
    from partonfit._files import check_writable

    fit = _console.load_fit(folder)
    target = output or folder / "report.html"
    check_writable(target, overwrite=overwrite)
    _report(
        fit,
        target,
        overwrite=overwrite,
        title=title,
        to=None if to is None else _console.load_reference(to),
    )


@app.command()
def evolve(
    folder: FitFolder,
    name: Annotated[str, typer.Option(help="Name of the LHAPDF set.")],
    into: Annotated[Path | None, typer.Option(help="Folder that will hold the set; DIR by default.")] = None,
    overwrite: Overwrite = False,
) -> None:
    """Evolve a fit and write it as an LHAPDF set.

    Example: partonfit evolve fit --name myset
    """
    _checked_set_name(name)
    _evolve(_console.load_fit(folder), (into or folder) / name, overwrite=overwrite)


@app.command()
def postfit(
    folder: FitFolder,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write the fit to.", metavar="DIR")],
    sigmas: Annotated[float, typer.Option(help="Largest excess of chi2 and arc length over the mean.")] = 4.0,
    integrability: Annotated[
        float | None, typer.Option(help="Largest sum of |x q| at x = 1e-9, 1e-8, 1e-7 (0.5; none for a form).")
    ] = None,
    positivity: Annotated[float | None, typer.Option(help="Largest loss of an observable; the fit's own.")] = None,
    overwrite: Overwrite = False,
) -> None:
    """Decide anew which replicas of a fit are kept.

    Example: partonfit postfit fit -o strict --sigmas 3
    """
    from partonfit._files import check_writable
    from partonfit._postfit import postfit as decide

    check_writable(output, overwrite=overwrite)
    result = decide(_console.load_fit(folder), sigmas=sigmas, integrability=integrability, positivity=positivity)
    result.save(output, overwrite=overwrite)
    _print_fit(result, output)


app.command()(_cli_studies.closure)
app.command()(_cli_studies.compare)


@app.command()
def chi2(
    folder: FitFolder,
    covariance: Annotated[str, typer.Option(help="'experimental' or 't0'.")] = "experimental",
) -> None:
    """Show the chi2 of a fit by dataset.

    Example: partonfit chi2 fit --covariance t0
    """
    _console.console().print(str(_console.load_fit(folder).chi2(covariance)))


@app.command()
def card(
    path: Annotated[Path | None, typer.Argument(help="A runcard; without it the defaults.", metavar="[CARD]")] = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON schema, for editors.")] = False,
) -> None:
    """Check a runcard and print it with every default filled in.

    Example: partonfit card n3fit_card.yml > card.yml
    """
    from partonfit import runcard

    if schema:
        typer.echo(json.dumps(runcard.card_schema(), indent=2))
        return
    settings = runcard.RunSettings() if path is None else runcard.read_card(path)
    typer.echo(runcard.to_yaml(settings), nl=False)


@theory_app.command("build")
def theory_build(
    name: Annotated[str, typer.Argument(help="What to build: 'hera', 'fixed-target' or 'dis'.")] = "hera",
    scheme: Annotated[str, typer.Option(help="'fonll-c' (about an hour) or 'zm-vfns' (minutes).")] = "fonll-c",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Folder for the tables.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a build that was stopped.")] = False,
) -> None:
    """Build FK tables with yadism, EKO and pineappl. This needs the network once, for yadism.

    Example: partonfit theory build hera --scheme zm-vfns -o tables
    """
    from partonfit.theory import building

    with _console.step_progress("building tables") as progress:
        folder = building.build(name, scheme, output, resume=resume, progress=progress)
    _console.console().print(f"Tables: {escape(str(folder))}")
    _console.console().print(f"Next: partonfit fit {escape(name)} -o fit --theory {escape(str(folder))}")


@theory_app.command("info")
def theory_info(
    theory: Annotated[str, typer.Argument(help="Name or folder.")] = "hera",
    table: Annotated[str | None, typer.Option(help="Show everything about one table.")] = None,
) -> None:
    """Describe a theory and its tables.

    Example: partonfit theory info hera
    """
    from partonfit.theory import load_theory

    found = load_theory(theory)
    if table is not None:
        typer.echo(json.dumps(found.info(table), indent=2, default=str))
        return
    rows = [found.info(name) for name in found.names]
    _console.table(
        f"{found.name}: {len(rows)} tables at Q0 = {found.q0:g} GeV",
        ("table", "kind", "rows", "channels", "x points", "x min", "sha256"),
        [(r["name"], r["kind"], r["n_data"], r["n_channels"], r["n_x"], f"{r['x_min']:.2g}", r["sha256"][:12])
         for r in rows],
        left=2,
    )  # fmt: skip


@theory_app.command("check")
def theory_check(theory: Annotated[str, typer.Argument(help="Name or folder.")] = "hera") -> None:
    """Read every table of a theory completely, and compare it with its manifest if there is one.

    Example: partonfit theory check path/to/theory_40000000
    """
    from partonfit.theory import building, load_theory

    found = load_theory(theory)
    for name in found.names:
        found.table(name)
    out = _console.console()
    out.print(f"{escape(found.name)}: all {len(found.names)} tables can be read, Q0 = {found.q0:g} GeV")
    if not any((folder / "manifest.json").is_file() for folder in found.folders):
        out.print("No manifest.json: these tables were not built by partonfit, so there are no hashes to compare.")
        return
    rows = [
        (r["table"], r["n_data"], r["sha256"][:12], _number(r["largest_difference"])) for r in building.check(theory)
    ]
    _console.table("As in the manifest", ("table", "rows", "sha256", "largest difference from yadism"), rows)


def _number(value: Any) -> str:
    return f"{value:.1e}" if isinstance(value, int | float) else str(value)


@data_app.command("list")
def data_list(
    pattern: Annotated[str, typer.Argument(help="Show only names that contain this.")] = "",
    embedded: Annotated[bool, typer.Option("--embedded", help="Only those that travel with the package.")] = False,
) -> None:
    """List the datasets that can be fitted.

    Example: partonfit data list HERA_NC
    """
    from partonfit.data import list_datasets

    rows = [d for d in list_datasets() if pattern.casefold() in d.name.casefold() and (d.embedded or not embedded)]
    if not rows:
        names = [d.name for d in list_datasets()]
        msg = f"No dataset name contains {pattern!r}. {nearest(pattern, names, what='dataset')}"
        raise SettingError(msg)
    shown = [(d.name, d.process, "yes" if d.embedded else "", d.n_data, ", ".join(d.variants)) for d in rows]
    _console.table("", ("dataset", "process", "embedded", "points", "variants"), shown, left=3)


@data_app.command("show")
def data_show(
    name: Annotated[str, typer.Argument(help="Name of a dataset, or 'hera'.")],
    variant: Annotated[str | None, typer.Option(help="Variant of its uncertainties.")] = None,
    q2min: Annotated[float, typer.Option(help="Cut on Q2 [GeV2].")] = 3.49,
    w2min: Annotated[float, typer.Option(help="Cut on W2 [GeV2].")] = 12.5,
) -> None:
    """Show a dataset after cuts: points, cuts, tables, uncertainties.

    Example: partonfit data show HERA_CC_318GEV_EP-SIGMARED
    """
    from partonfit.data import load_data

    entry: Any = name if variant is None else {"dataset": name, "variant": variant}
    data = load_data(entry, q2min=q2min, w2min=w2min)
    for d in data.datasets:
        lines = [
            ("process", d.process), ("experiment", d.experiment), ("variant", " + ".join(d.variant) or "-"),
            ("points", f"{d.n_data} of {d.n_uncut}"), ("units", d.units), ("operation", d.operation),
            ("tables", "; ".join(", ".join(t) for t in d.tables)), ("systematics", len(d.systematics.types)),
            *((f"cut: {reason}", n) for reason, n in d.cuts.items()),
            *((key, f"{v.min():.4g} .. {v.max():.4g}") for key, v in d.kinematics.items()),
        ]  # fmt: skip
        _console.table(d.name, ("", ""), lines, left=2)


def _checked_set_name(name: str) -> None:
    from partonfit.results._lhapdf import checked_set_name

    checked_set_name(name)


def _report(result: Any, target: Path, *, overwrite: bool, title: str, to: Any = None) -> None:
    with _console.step_progress("drawing figures") as progress:
        path = result.report(target, overwrite=overwrite, title=title, to=to, progress=progress)
    _console.console().print(f"Report: {escape(str(path))}")


def _evolve(result: Any, target: Path, *, overwrite: bool, description: str = "") -> None:
    with _console.step_progress("writing members") as progress:
        path = result.write_lhapdf(target, overwrite=overwrite, description=description, progress=progress)
    _console.console().print(f"LHAPDF set: {escape(str(path))}")
    _console.console().print(
        f"To use it: export LHAPDF_DATA_PATH={escape(str(path.resolve().parent))}{os.pathsep}$LHAPDF_DATA_PATH"
    )


def _print_fit(result: Any, folder: Path) -> None:
    from partonfit.results._summary import constraint_losses

    out, table = _console.console(), result.chi2()
    out.print(f"{int(result.kept.sum())} of {result.n_replicas} replicas kept, seed {result.settings.get('seed')}")
    out.print(str(table))
    for each in constraint_losses(result):
        out.print(f"{each.kind} {each.name}: largest loss {each.largest:.2g}, mean {each.mean:.2g}")
    for status in result.statuses:
        if not status.kept:
            out.print(f"replica {status.replica}: {escape(status.sentence)}")
    out.print(f"Fit: {escape(str(folder))}")
    out.print(
        f"Next: partonfit report {escape(str(folder))}   or   partonfit evolve {escape(str(folder))} --name myset"
    )
