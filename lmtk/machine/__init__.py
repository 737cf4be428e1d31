"""What the other folders need from the machine: compiled kernels, threads, MPI ranks and memory.

`jit` makes a kernel of a function over arrays: `compiling` compiles it with numba, `kernel_cache` stores the machine
code, and `objects` loads it. `large` decides which jobs run kernels. `threads` and `parallel` share work among threads
and ranks, `blas` multiplies matrices, `memory` measures what `ulimit -v` leaves and tunes malloc.
"""
