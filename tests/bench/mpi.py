"""Training speed of M ranks against that of one process, measured in turn in one run, and where the ranks' time goes.

The ranks run by `mpiexec -n M`, which this program starts itself; they share the outputs, and then the text. In the
rounds of one process rank 0 works and the others sleep. The network is MLP9's on random ids; each figure is the median
of the rounds, the best round in parentheses. Where mpi4py is missing nothing is measured and the exit status is 0.
"""

import argparse
import importlib.util
import statistics
import subprocess
import sys
import time
from pathlib import Path

from nplm_vs_torch import ours, timed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-ranks", type=int, default=2)
    parser.add_argument("-minibatch", type=int, default=128)
    parser.add_argument("-rounds", type=int, default=15)
    parser.add_argument("-worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    mpiexec = Path(sys.executable).parent / "mpiexec"
    if args.worker:
        work(args)
    elif importlib.util.find_spec("mpi4py") and mpiexec.exists():
        subprocess.run([mpiexec, "-n", str(args.ranks), sys.executable, *sys.argv, "-worker"], check=True)
    else:
        print("mpi4py and its mpiexec are not installed: no measurement of ranks")


def work(args):
    import numpy as np

    from lmtk.machine.parallel import ranks, wait
    from lmtk.machine.threads import use
    from lmtk.nplm.asynchronous import Common

    use(1)
    V, n, m, h, K, steps = 17907, 5, 30, 100, args.minibatch, 24
    random = np.random.default_rng(1)
    contexts = random.integers(0, V, (steps, K, n - 1)).astype(np.int32)
    w = random.integers(0, V, (steps, K))
    with ranks() as many:
        one, of_rank, shared = (ours(V, n, m, h, False, contexts, w, 1, comm) for comm in (None, many, Common(many)))

        def meeting():
            wait(many.world.Ibarrier())
            return time.perf_counter()

        seconds = {"one": [], "many": [], "data": [], "waiting": [], "communication": []}
        for _ in range(args.rounds + 1):
            if many.rank == 0:
                seconds["one"].append(timed(one))
            ready = many.world.Ibarrier()
            while not ready.Test():
                time.sleep(0.001)
            many.timed = False
            seconds["many"].append(timed(of_rank))
            begun = meeting()
            shared()
            # each rank has made as many updates as one process would
            seconds["data"].append((meeting() - begun) / many.size)
            many.timed, many.waiting, many.communication = True, 0.0, 0.0
            whole = timed(of_rank)
            for name in ("waiting", "communication"):
                seconds[name].append(float(many.sum(np.array([getattr(many, name) / whole]))[0]) / many.size)
        if many.rank == 0:
            one, together = seconds["one"][1:], seconds["many"][1:]
            faster = statistics.median(one) / statistics.median(together)
            line = f"MLP9 K={K}: one process {steps * K / statistics.median(one):.0f} examples/s, "
            line += f"{many.size} ranks {faster:.2f} times that ({min(one) / min(together):.2f})"
            for name in ("communication", "waiting"):
                share = seconds[name][1:]
                line += f", {name} {statistics.median(share):.3f} of their time ({min(share):.3f})"
            data = seconds["data"][1:]
            line += f"; sharing the text {statistics.median(one) / statistics.median(data):.2f} times one process"
            print(f"{line} ({min(one) / min(data):.2f})")


if __name__ == "__main__":
    main()
