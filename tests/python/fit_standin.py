"""A small stand-in for a fit: the known toy PDF times smooth random factors, on invented data.

It has the attributes that results/ reads from a ``PDFFit`` and nothing of how a fit is made, so
plots, LHAPDF sets and reports are tested without training anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
from partonfit._vocabulary import EVOLUTION, FLAVOURS, FROM_FLAVOURS, rotation

HERA = {
    "HERA_NC_318GEV_EM-SIGMARED": 159,
    "HERA_NC_225GEV_EP-SIGMARED": 204,
    "HERA_NC_318GEV_EP-SIGMARED": 377,
    "HERA_CC_318GEV_EM-SIGMARED": 42,
    "HERA_CC_318GEV_EP-SIGMARED": 39,
}
_A = (5.107200, 0.8, 3.0, 3.064320, 0.8, 4.0, 1.700000, -0.1, 5.0, 0.1939875, -0.1, 6.0, 0.2)


def toy(x: np.ndarray) -> np.ndarray:
    """Return the Les Houches toy PDF in the evolution basis, (14, x), at Q0."""
    a, x = _A, np.asarray(x, dtype=float)
    u_v = a[0] * x ** a[1] * (1 - x) ** a[2]
    d_v = a[3] * x ** a[4] * (1 - x) ** a[5]
    gluon = a[6] * x ** a[7] * (1 - x) ** a[8]
    dbar = a[9] * x ** a[10] * (1 - x) ** a[11]
    ubar = dbar * (1 - x)
    strange = a[12] * (ubar + dbar)
    known = {
        "u": u_v + ubar, "ubar": ubar, "d": d_v + dbar, "dbar": dbar,
        "s": strange, "sbar": strange, "g": gluon,
    }  # fmt: skip
    return FROM_FLAVOURS @ np.stack([known.get(name, np.zeros_like(x)) for name in FLAVOURS])


def running(xf0: np.ndarray, x: np.ndarray, Q: float) -> np.ndarray:
    """Return a smooth invented scale dependence of ``xf0`` (…, x): it is not QCD."""
    t = np.log(max(Q, 1.0) / 1.65)
    return xf0 * (1 + 0.05 * t) * (0.1 + np.asarray(x)) ** (0.05 * t)


@dataclass(frozen=True)
class Chi2Table:
    covariance: str
    dataset: tuple[str, ...]
    n_data: tuple[int, ...]
    chi2: tuple[float, ...]
    total: float

    def __str__(self) -> str:
        return f"chi2 with the {self.covariance} covariance: {self.total:.1f}"


@dataclass(frozen=True)
class StandInData:
    datasets: tuple
    errors: np.ndarray

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(d.name for d in self.datasets)

    @property
    def n_data(self) -> int:
        return sum(d.values.size for d in self.datasets)

    @property
    def values(self) -> np.ndarray:
        return np.concatenate([d.values for d in self.datasets])

    @property
    def slices(self) -> dict[str, slice]:
        ends = np.cumsum([d.values.size for d in self.datasets])
        return {d.name: slice(int(e) - d.values.size, int(e)) for d, e in zip(self.datasets, ends, strict=True)}

    def covariance(self, t0: np.ndarray | None = None) -> np.ndarray:
        return np.diag(self.errors**2) + np.outer(0.01 * self.values, 0.01 * self.values)


def _dataset(name: str, n: int, rng: np.random.Generator) -> SimpleNamespace:
    scales = np.geomspace(3.5, 2e4, max(3, n // 12))
    q2 = np.sort(rng.choice(scales, size=n))
    x = np.clip(q2 / 1e5 * 10 ** rng.uniform(0, 3, n), 4e-5, 0.65)
    y = np.clip(q2 / (x * 318.0**2), 0.001, 0.95)
    xf = toy(x)
    flavour = rotation(("u_plus", "d_plus", "s_plus")) @ xf
    truth = (4 * flavour[0] + flavour[1] + flavour[2]) / 9 * (1 - 0.1 * y**2)
    stat, systematic = 0.015 * truth + 0.002, 0.012 * truth
    values = truth + rng.normal(size=n) * np.hypot(stat, systematic)
    return SimpleNamespace(
        name=name, variant="legacy", frac=0.75, weight=1.0, values=values, truth=truth, stat=stat,
        kinematics={"x": x, "Q2": q2, "y": y}, process="DIS_CC" if "_CC_" in name else "DIS_NC",
        kept=np.arange(n), n_uncut=n + 20, operation="NULL", tables=((name,),),
        uncorrelated_error=stat, total_error=np.hypot(stat, systematic), plotting={}, units="1",
        cuts={"Q2 below 3.49": 20},
    )  # fmt: skip


@dataclass(frozen=True)
class StandInFit:
    n: int = 20
    seed: int = 1
    datasets: dict[str, int] = field(default_factory=lambda: dict(HERA))
    vetoed: int = 2

    q0 = 1.65
    has_t0 = True

    @property
    def n_replicas(self) -> int:
        return self.n

    @property
    def kept(self) -> np.ndarray:
        kept = np.ones(self.n, dtype=bool)
        if self.n > self.vetoed:
            kept[self.n - self.vetoed :] = False
        return kept

    def xf(self, x: np.ndarray, kept_only: bool = True) -> np.ndarray:
        x = np.asarray(x, dtype=float)
        noise = np.random.default_rng(self.seed).normal(size=(self.n, len(EVOLUTION), 3))
        wave = np.stack([np.ones_like(x), np.log(x) / 10, np.sqrt(x)])
        xf = toy(x)[None] * (1 + 0.04 * np.einsum("rfk,kx->rfx", noise, wave))
        return xf[self.kept] if kept_only else xf

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return self.xf(x).mean(axis=0)

    def predict(self, x, flavour="g", basis=None, Q=None):
        names = (flavour,) if isinstance(flavour, str) else tuple(flavour)
        x = np.asarray(x, dtype=float)
        values = np.einsum("fe,rex->rfx", rotation(names), self.xf(x))
        if Q not in (None, self.q0):
            values = running(values, x, Q)
        lower, upper = np.quantile(values, [0.16, 0.84], axis=0)
        sd = values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros(values.shape[1:])
        return SimpleNamespace(
            x=x, Q=Q or self.q0, flavour=names, mean=values.mean(axis=0), sd=sd,
            lower=lower, upper=upper, replicas=values,
        )  # fmt: skip

    @property
    def data(self) -> StandInData:
        rng = np.random.default_rng(self.seed)
        sets = tuple(_dataset(name, n, rng) for name, n in self.datasets.items())
        return StandInData(sets, np.concatenate([np.hypot(d.stat, 0.012 * d.truth) for d in sets]))

    def predictions(self, kept_only: bool = True) -> np.ndarray:
        truth = np.concatenate([d.truth for d in self.data.datasets])
        noise = np.random.default_rng(self.seed + 1).normal(size=(self.n, 1))
        result = truth * (1 + 0.01 * noise)
        return result[self.kept] if kept_only else result

    def chi2(self, covariance: str = "experimental") -> Chi2Table:
        data, central = self.data, self.predictions().mean(axis=0)
        pulls = ((data.values - central) / data.errors) ** 2
        chi2 = tuple(float(pulls[rows].sum()) for rows in data.slices.values())
        n = tuple(rows.stop - rows.start for rows in data.slices.values())
        return Chi2Table(covariance, data.names, n, chi2, float(pulls.sum()))

    @property
    def statuses(self) -> tuple:
        rng = np.random.default_rng(self.seed + 2)
        result = []
        for k, kept in enumerate(self.kept):
            best = int(rng.integers(900, 2700))
            chi2 = 1.15 + 0.05 * rng.normal()
            result.append(SimpleNamespace(
                replica=k, kept=bool(kept), status="converged" if kept else "vetoed",
                epoch=min(best + 300, 3000), best_epoch=best,
                sentence="stopped early" if kept else "vetoed: arc length of Sigma exceeds the mean by 4 sigma",
                training=chi2, validation=chi2 + 0.1 + 0.05 * rng.normal(),
            ))  # fmt: skip
        return tuple(result)

    @property
    def history(self) -> dict[str, np.ndarray]:
        epoch = np.arange(0, 3000, 25)
        rng = np.random.default_rng(self.seed + 3)
        training = 1.1 + 40 * np.exp(-epoch / 150)[None] * rng.uniform(0.5, 2, (self.n, 1))
        training = training + 0.05 * rng.normal(size=(self.n, 1))
        for k, status in enumerate(self.statuses):
            training[k, epoch > status.epoch] = np.nan
        return {"epoch": epoch, "training": training, "validation": training * 1.08}

    @property
    def settings(self) -> dict:
        return {"data": "hera", "theory": "hera", "replicas": self.n, "seed": 1, "control": {"epochs": 3000}}

    @property
    def provenance(self) -> dict:
        return {"versions": {"partonfit": "0.1.0", "jax": "0.12.0"}, "hashes": {"data": "0123abcd"}}


def evolve(xf0, x_in, x_out, points, card):
    """Stand in for DGLAP evolution: (replica, point, 14, x) by the invented running."""
    assert np.array_equal(x_in, x_out)
    return np.stack([running(xf0, x_out, np.sqrt(q2)) for q2, _ in points], axis=1)


def alpha_s(points, card):
    """Return the one-loop running coupling at each point."""
    return [0.118 / (1 + 0.118 * 0.61 * np.log(q2 / card.mz**2)) for q2, _ in points]


CARD = SimpleNamespace(
    q0=1.65,
    order=2,
    alphas=0.118,
    mz=91.1876,
    masses=(1.51, 4.92, 172.5),
    thresholds=(1.51, 4.92, 172.5),
    nf_max=5,
)
