"""This module turns histograms of probability integral transforms (PIT) into the raw levels to read.

A PIT says where a duration fell in the forecast made for it. Its distribution is estimated by the
product-limit estimate (Kaplan and Meier 1958) on a fixed grid, since jobs that still run, or that were
cut short, are only known to fall higher; it is shrunk towards a prior by a mass that stands for evidence.
"""

import numpy as np
import numpy.typing as npt

from predictor.features.compiled import compiled

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

# finer at both ends, where planning looks and where a forecast that is too narrow puts its misses
_TAIL_EDGES = (0.0, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.015)
PIT_EDGES: tuple[float, ...] = (
    *_TAIL_EDGES,
    *(step / 50 for step in range(1, 50)),
    *(1.0 - edge for edge in reversed(_TAIL_EDGES)),
)
PIT_BINS = len(PIT_EDGES) - 1
LEAST_LEVEL, MOST_LEVEL = 1e-4, 1.0 - 1e-5
EDGES = np.array(PIT_EDGES)
EDGES.flags.writeable = False
UNIFORM = EDGES[1:].copy()  # the distribution function at the right edges when nothing is to be corrected
UNIFORM.flags.writeable = False


def bins_of(pit: FloatArray) -> IntArray:
    """Return the bin of each PIT, shape (n,)."""
    return np.clip(EDGES.searchsorted(pit, side="right") - 1, 0, PIT_BINS - 1).astype(np.int64)


def spread_over(below: FloatArray, upto: FloatArray, bins: IntArray) -> FloatArray:
    """Return the share of each outcome in each bin, spread evenly over its atom, shape (n, PIT_BINS)."""
    width = upto - below
    inside = np.minimum(EDGES[1:], upto[:, None]) - np.maximum(EDGES[:-1], below[:, None])
    shares = np.clip(inside, 0.0, None) / np.maximum(width, 1e-9)[:, None]
    shares[width < 1e-9] = 0.0
    sharp = np.flatnonzero(width < 1e-9)
    shares[sharp, bins[sharp]] = 1.0
    return np.asarray(shares)


def effective_count(total: FloatArray, squares: FloatArray) -> FloatArray:
    """Return how many equally heavy clusters tell as much: (sum w)^2 / sum w^2 (Kish 1965)."""
    return np.divide(total**2, squares, out=np.zeros_like(total), where=squares > 0)


@compiled
def shrunk_cdf(
    ended: FloatArray,
    censored: FloatArray,
    count: float,
    prior_count: float,
    prior: FloatArray,
    out: FloatArray,
) -> None:
    """Write the distribution function of PITs at the right edges of the bins.

    Args:
        ended: shape (B,), weight of outcomes by bin.
        censored: shape (B,), weight of what is only known to fall higher.
        count: how many independent outcomes the weights stand for.
        prior_count: how many such outcomes the prior is worth.
        prior: shape (B,), distribution function of the prior at the right edges.
        out: shape (B,), written.
    """
    total = ended.sum() + censored.sum()
    count = min(count, total)
    if count <= 1e-6:
        out[:] = prior
        return
    scale = prior_count * total / count
    at_risk, survival, reached = total + scale, 1.0, 0.0
    for place in range(ended.shape[0]):
        mass = ended[place] + scale * (prior[place] - reached)
        reached = prior[place]
        left = at_risk - 0.5 * censored[place]
        survival *= 1.0 - min(mass / left, 1.0) if left > 1e-12 else 0.0
        out[place] = 1.0 - survival
        at_risk -= mass + censored[place]
    out[ended.shape[0] - 1] = 1.0


@compiled
def cdf_at(cdf: FloatArray, edges: FloatArray, pit: float) -> float:
    """Return the distribution function at a PIT."""
    place = min(max(np.searchsorted(edges, pit, side="right") - 1, 0), cdf.shape[0] - 1)
    low = cdf[place - 1] if place > 0 else 0.0
    return float(low + (cdf[place] - low) * (pit - edges[place]) / (edges[place + 1] - edges[place]))


@compiled
def cdf_at_each(
    cdfs: FloatArray, which: IntArray, edges: FloatArray, pit: FloatArray, out: FloatArray
) -> None:
    """Write the distribution function number ``which`` at each PIT, shape (n,)."""
    for row in range(pit.shape[0]):
        out[row] = cdf_at(cdfs[which[row]], edges, pit[row])


@compiled
def level_at(cdf: FloatArray, edges: FloatArray, wanted: float) -> float:
    """Return the raw level below which a share ``wanted`` of outcomes falls."""
    place = min(np.searchsorted(cdf, wanted), cdf.shape[0] - 1)
    low = cdf[place - 1] if place > 0 else 0.0
    share = (wanted - low) / max(cdf[place] - low, 1e-12)
    return float(edges[place] + share * (edges[place + 1] - edges[place]))


@compiled
def logit(level: float) -> float:
    """Return the log odds of a level, kept off 0 and 1."""
    inside = min(max(level, LEAST_LEVEL), MOST_LEVEL)
    return float(np.log(inside / (1.0 - inside)))


@compiled
def read_levels(
    bounds: FloatArray,
    middles: FloatArray,
    own: FloatArray,
    length_edges: FloatArray,
    lengths: FloatArray,
    which_own: IntArray,
    edges: FloatArray,
    wanted: FloatArray,
    middle_share: float,
    bound_share: FloatArray,
    out: FloatArray,
) -> None:
    """Write the raw levels to read for n jobs, ascending along a row.

    Args:
        bounds: shape (groups, B), distribution functions that upper levels are read from; the first is that
            of all jobs, the others those of jobs of one length.
        middles: shape (groups, B), those that the middle is read from.
        own: shape (submitters, B), what is left to correct for single submitters after the groups.
        length_edges: shape (groups - 2,), what parts the lengths, ascending.
        lengths: shape (n,), length of each job.
        which_own: shape (n,), submitter of each job; one that is not in ``own`` is unknown.
        edges: shape (B + 1,).
        wanted: shape (P,), probabilities, ascending.
        middle_share: how much of the correction of the middle is applied.
        bound_share: shape (P,), 0 = read from the middle, 1 = read from the bounds.
        out: shape (n, P), written.
    """
    for row in range(lengths.shape[0]):
        group = 1 + np.searchsorted(length_edges, lengths[row], side="right")
        submitter = which_own[row] if which_own[row] < own.shape[0] else -1
        last = -np.inf
        for place in range(wanted.shape[0]):
            asked = logit(wanted[place])
            middle = asked + middle_share * (logit(level_at(middles[group], edges, wanted[place])) - asked)
            level = wanted[place]
            if submitter >= 0:
                level = level_at(own[submitter], edges, level)
            bound = logit(level_at(bounds[group], edges, level))
            last = max(last, (1.0 - bound_share[place]) * middle + bound_share[place] * bound)
            out[row, place] = 1.0 / (1.0 + np.exp(-last))
