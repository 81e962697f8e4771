"""Few rows and a long sum on a GPU: a program for each part of the sum, and a launch that merges the parts in order.

    txc emit --target triton --schedule examples/schedules/matmul_tall.py examples/matmul_silu.tx

The merge is another order of the sum: the kernel permits `reassociate`.
"""


def schedule(s):
    part, k = s.split("C.k", 3072)
    s.rfactor(part)
    s.merge("C.block", part)

    # Two nests: the parts, and what merges them and goes on with the result.
    _, j, *others = s.distribute("C.j")
    _, i, *rows = s.distribute("C.i")
    for row, column in zip(rows, others, strict=True):
        s.merge(i, row)
        s.merge(j, column)
    s.merge(i, "Y.i")
    s.merge(j, "Y.j")
    s.store("C.blocks", layout="(i, j, part) -> (part, i, j)")

    io, ii = s.split("C.i", 16)
    jo, ji = s.split("C.j", 128)
    s.reorder(io, jo, "C.block", ii, ji)
    ko, ki = s.split(k, 64)
    s.reorder(ko, ii, ji, ki)
    copies = s.cache_read("A", ko), s.cache_read("W", ko)
    s.pipeline(ko, 6)

    ro, ri = s.split(i, 8)
    co, ci = s.split(j, 128)
    s.reorder(ro, co, ri, ci)
    s.reorder("C.block2", ri, ci)

    serial = (io, jo, "C.block", ko, ro, co, "C.block2")
    for name in (*copies, "C", "Y"):
        s.block(*(loop for loop in s[name].loops if loop not in serial))
    for loop in (io, jo, "C.block", ro, co):
        s.parallel(loop)
