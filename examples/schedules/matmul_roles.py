"""Many rows on a Hopper GPU: one warp loads, two groups of warps multiply, and two warps finish the tile before.

txc emit --target triton --schedule examples/schedules/matmul_roles.py examples/matmul_silu.tx
"""


def schedule(s):
    row, ri = s.split("Y.i", 128)
    column, ci = s.split("Y.j", 256)
    s.reorder(row, column, ri, ci)
    s.compute_at("C", column)

    # The sum in pieces of 64, of which three are loaded or multiplied at a time.
    ko, ki = s.split("C.k", 64)
    s.reorder(ko, "C.i", "C.j", ki)
    a, w = s.cache_read("A", ko), s.cache_read("W", ko)
    s.pipeline(ko, 3)
    for name in (a, w, "C", "Y"):
        s.block(*(loop for loop in s[name].loops if loop not in (row, column, ko)))

    # Sixteen row tiles share a column tile before the next one's turn: what one loads, the others find in the cache.
    groups, column, within = s.group(row, column, 16)
    s.bind(groups, "processors")
    s.parallel(column)
    s.parallel(within)

    # Each consumer has half the rows; the epilogue applies silu while they are at the next tile.
    s.roles(ko, 2, "Y")
