"""Random limits of Gibbs updates between a product model and a machine, drawn before the state is looked at.

A unit goes up where tilt_i + field / scale > logit(u), that is where its field exceeds (logit(u) - tilt_i) scale. See
`fastbm.kernels.limits`.
"""

import numpy as np

from .._jit import kernel
from .limits import largest_float32
from .random import logit_of_bits, next_word


@kernel
def tilted_limits(streams, tilts, scale, limits):
    """Draw limits of Gibbs updates: a field goes up where it is larger. Mutates `streams`, `limits` (rows, lanes).

    `tilts` (rows,) float32 are log-odds that come to those of the fields, `scale` (float32) turns log-odds into the
    units of the fields; the largest number where fields have no say.  Cost: one draw and one logarithm an entry.
    """
    most = largest_float32(limits)
    s0, s1, s2, s3 = streams[0], streams[1], streams[2], streams[3]
    for row in range(limits.shape[0]):
        tilt = tilts[row]
        for lane in range(limits.shape[1]):
            word, s0[lane], s1[lane], s2[lane], s3[lane] = next_word(s0[lane], s1[lane], s2[lane], s3[lane])
            limit = np.floor(np.float32(np.float32(logit_of_bits(word) - tilt) * scale))
            limits[row, lane] = min(max(limit, -most), most)
