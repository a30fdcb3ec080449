"""Times sketch recovery beside general solvers: python benchmarks/sketch.py [--full] [--device cuda]

One run, the same instances for all, each method in a process of its own with one thread: CPU seconds (wall
on a GPU), growth of the peak memory, and whether X came back (largest error below 1e-5 of the largest entry).
The general solvers get the Kronecker product as a sparse matrix, spgl1 a LinearOperator on sparse factors;
what is not installed, fails or takes too long is said to be so. --full adds the large instances.
"""

from __future__ import annotations

import argparse
import importlib
import multiprocessing
import os
import resource
import time
from typing import TYPE_CHECKING, Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from ratios import beside, is_installed

from codebound.bits.stream import Stream
from codebound_networks.train.rng import numpy_stream
from codebound_papers.guha23.sketch.operators import Bipartite, column_ensemble, sketch
from codebound_papers.guha23.sketch.peeling import peel
from codebound_papers.guha23.sketch.recovery import recover, recover_integers, recover_l1

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

Case = tuple[int, int, int, int]  # p, non-zeros per line, m, degree
Measured = tuple[float, float, float, bool]  # seconds, megabytes, relative error, claim

OURS = ("hybrid", "l1", "integers", "peel")
PEERS = ("spgl1", "cvxpy Clarabel", "cvxpy SCS", "cvxpy HiGHS", "linprog HiGHS")
PACKAGES = {"spgl1": "spgl1", "cvxpy": "cvxpy", "linprog": "scipy"}
SMALL: tuple[Case, ...] = ((40, 2, 30, 5), (100, 2, 48, 5))
LARGE: tuple[Case, ...] = ((784, 8, 225, 5), (784, 8, 180, 3), (784, 78, 485, 4), (2000, 4, 279, 5))
TIME_LIMIT_S = 30


def instance(case: Case, *, integer: bool) -> tuple[torch.Tensor, Bipartite, Bipartite]:
    """A union of permutations with Gaussian values, or with their nearest integers away from zero."""
    p, j, m, degree = case
    rng = numpy_stream(0, f"benchmark/{case}")
    x = np.zeros((p, p))
    for _ in range(j):
        x[np.arange(p), rng.permutation(p)] = rng.standard_normal(p)
    value = torch.from_numpy(x)
    if integer:
        value = (value.sign() * (3 * value).abs().ceil()).long()
    a, b = (column_ensemble(Stream(0, side), m=m, p=p, degree=degree) for side in ("left", "right"))
    return value, a, b


def kronecker(a: Bipartite, b: Bipartite) -> Any:
    """The constraint matrix of the general solvers."""
    from scipy import sparse

    return sparse.kron(sparse.csr_matrix(a.dense()), sparse.csr_matrix(b.dense()), format="csc").astype(float)


def with_linprog(y: torch.Tensor, a: Bipartite, b: Bipartite) -> Any:
    """The linear program in positive and negative parts."""
    from scipy import sparse
    from scipy.optimize import linprog

    k = kronecker(a, b)
    n = k.shape[1]
    result = linprog(np.ones(2 * n), A_eq=sparse.hstack([k, -k]), b_eq=y.numpy().ravel(), method="highs")
    return (result.x[:n] - result.x[n:]).reshape(a.p, b.p)


def with_cvxpy(solver: str, y: torch.Tensor, a: Bipartite, b: Bipartite) -> Any:
    """The same program, modelled."""
    cvxpy: Any = importlib.import_module("cvxpy")
    k = kronecker(a, b)
    x = cvxpy.Variable(k.shape[1])
    cvxpy.Problem(cvxpy.Minimize(cvxpy.norm1(x)), [k @ x == y.numpy().ravel()]).solve(solver=solver)
    return np.asarray(x.value).reshape(a.p, b.p)


def with_spgl1(y: torch.Tensor, a: Bipartite, b: Bipartite) -> Any:
    """Basis pursuit with a matrix-free operator."""
    from scipy import sparse
    from scipy.sparse.linalg import LinearOperator

    spgl1: Any = importlib.import_module("spgl1")
    left, right = (sparse.csr_matrix(g.dense().astype(float)) for g in (a, b))
    operator = LinearOperator(
        (a.m * b.m, a.p * b.p),
        matvec=lambda v: (right @ (left @ v.reshape(a.p, b.p)).T).T.ravel(),
        rmatvec=lambda v: (right.T @ (left.T @ v.reshape(a.m, b.m)).T).T.ravel(),
        dtype=float,
    )
    operator.imag = np.zeros(1)  # spgl1 asks for it, and scipy's operators have none any more
    return spgl1.spg_bp(operator, y.numpy().ravel(), iter_lim=5000, verbosity=0)[0].reshape(a.p, b.p)


def solver(method: str) -> Callable[[torch.Tensor, Bipartite, Bipartite], tuple[Any, bool]]:
    """The function behind a name; it returns X and whether it claims to have recovered it."""
    ours = {"hybrid": recover, "l1": recover_l1, "integers": recover_integers}
    if method in ours:
        return lambda y, a, b: ((r := ours[method](y, a, b)).value, r.recovered)
    if method == "peel":
        return lambda y, a, b: ((r := peel(y.cpu().numpy(), a, b)).value, r.complete)
    if method.startswith("cvxpy"):
        return lambda y, a, b: (with_cvxpy(method.split()[1].upper(), y, a, b), True)
    peer = {"spgl1": with_spgl1, "linprog HiGHS": with_linprog}[method]
    return lambda y, a, b: (peer(y, a, b), True)


def measure(method: str, case: Case, device: str, repeats: int, pipe: Connection) -> None:
    """Runs in a process of its own; what goes wrong there is told in a line."""
    try:
        pipe.send(measured(method, case, device, repeats))
    except Exception as error:
        pipe.send(f"{type(error).__name__}: {error}")


def measured(method: str, case: Case, device: str, repeats: int) -> Measured:
    """Least seconds, megabytes, relative error, claim."""
    torch.set_num_threads(1)
    solve, integer = solver(method), method == "integers"
    warm, *ends = instance((20, 1, 16, 4), integer=integer)
    solve(sketch(warm, *ends).to(device), *ends)
    x, a, b = instance(case, integer=integer)
    y = sketch(x, a, b).to(device)
    clock = time.process_time if device == "cpu" else time.perf_counter
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds, value, claim = [], None, False
    for _ in range(repeats):
        fresh = [Bipartite(g.m, g.p, g.rows, g.starts) for g in (a, b)]  # nothing cached
        start = clock()
        value, claim = solve(y, *fresh)
        seconds.append(clock() - start)
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    found = value.cpu().double() if isinstance(value, torch.Tensor) else torch.as_tensor(value)
    return min(seconds), memory, float((found - x).abs().max() / x.abs().max()), claim


def row(method: str, case: Case, device: str, repeats: int) -> Measured | str:
    """The measurement, or why there is none."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=measure, args=(method, case, device, repeats, there))
    process.start()
    there.close()
    try:
        found: Measured | str = here.recv() if here.poll(TIME_LIMIT_S) else f"above {TIME_LIMIT_S} s"
    except EOFError:
        return "its process was lost"
    else:
        return found
    finally:
        process.kill()
        process.join()


def main() -> None:
    """Prints one table per instance."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="the large instances too: some minutes")
    parser.add_argument("--device", default="cpu", help="where our iterations run; the others use the CPU")
    options = parser.parse_args()
    missing = {name for name, package in PACKAGES.items() if not is_installed(package)}
    for case in SMALL + (LARGE if options.full else LARGE[:1]):
        p, j, m, degree = case
        print(f"{p} x {p}, {j} per line, m = {m}, degree {degree}: ratios to hybrid and l1")
        base: dict[str, float] = {}
        for method in OURS + (PEERS if case in SMALL and options.device == "cpu" else ()):
            if method.split()[0] in missing:
                continue
            result = row(method, case, options.device, 3 if method in OURS else 1)
            if isinstance(result, str):
                print(f"  {method:15} no result: {result}", flush=True)
                continue
            seconds, memory, error, claim = result
            base.setdefault(method, seconds)
            ratios = " ".join(f"{seconds / base[name]:8.1f}x" for name in ("hybrid", "l1") if name in base)
            failure = f"wrong by {error:.0e}" if claim else "not recovered, and says so"
            verdict = "recovered" if error < 1e-5 else failure
            if method in PEERS and error < 1e-5:
                beside(f"recovery of {p} x {p} from a sketch", ours=base["l1"], theirs=seconds, peer=method)
            print(f"  {method:15} {seconds:8.3f} s {memory:7.0f} MB {ratios:20} {verdict}", flush=True)


if __name__ == "__main__":
    main()
