"""matmul_silu in tiles of 64 x 64, the reduced index in blocks of 32 that are loaded three ahead."""


def schedule(s):
    io, jo, _, _ = s.tile("Y.i", "Y.j", 64, 64)
    s.compute_at("C", jo)
    ko, ki = s.split("C.k", 32)
    s.reorder(ko, "C.i", "C.j", ki)
    a, w = s.cache_read("A", ko), s.cache_read("W", ko)
    s.pipeline(ko, 3)
    # The loops of a tile are its axes: those that start a sum and end it, too.
    for stage in (a, w, "C", "Y"):
        s.block(*(loop for loop in s[stage].loops if loop not in (io, jo, ko)))
    s.bind(io, "grid.y")
    s.bind(jo, "grid.x")
