"""What the operations of torch cost that `torch.utils.flop_counter` does not know, or gets wrong, and that do more than
an operation for each number that they write.

A formula is given the shapes of the tensors of a call and of its result, and its other arguments as they are: an
operand of fewer dimensions counts as often as the operation repeats it. Systems, factorisations and
decompositions are counted by their leading terms: Golub, Van Loan, "Matrix Computations", 4th edition. Fourier
transforms by 5 N log2 N (Frigo, Johnson 2005, "The design and implementation of FFTW3", part 4). The others by the
products and sums in their definitions.
"""

from collections.abc import Callable, Sequence
from math import log2, prod
from typing import Any

import torch
from torch.utils.flop_counter import sdpa_backward_flop_count, sdpa_flop_count

Shape = Sequence[int]
Formula = Callable[..., int]


def _product(a: Shape, b: Shape, *_: Any, **__: Any) -> int:
    """`a` [..., n, m] times `b` [..., m, k], or a vector [m]."""
    return 2 * prod(a) * (b[-1] if len(b) > 1 else 1)


def _added(_: Any, a: Shape, b: Shape, *__: Any, **___: Any) -> int:
    """A product that is added to something."""
    return _product(a, b)


def _factored(per_cube: float) -> Formula:
    """`per_cube` n^3 operations for each matrix [..., n, n]; of another one, the shorter side counts twice."""
    return lambda a, *_, **__: int(per_cube * prod(a) * min(a[-2:]))


def _triangular(a: Shape, *_: Any, out_shape: Shape, **__: Any) -> int:
    """One pass of substitution: `a` [..., n, n], the solutions [..., n, k], or [..., k, n] where `a` stands right."""
    return prod(out_shape) * a[-1]


def _solve(a: Shape, *_: Any, out_shape: Sequence[Shape], **__: Any) -> int:
    """A factorisation of each matrix `a` [..., n, n], and two passes of substitution for the solutions."""
    return int(2 / 3 * prod(a) * a[-1] + 2 * prod(out_shape[0]) * a[-1])


def _twice(factor: Shape, solutions: Shape) -> int:
    """Two passes of substitution with a factor [..., n, n] that is there."""
    return 2 * prod(solutions) * factor[-1]


def _reflected(a: Shape, _: Any, other: Shape, *__: Any, **___: Any) -> int:
    """Householder's reflections in the columns of `a` [..., m, k] of `other` [..., m, n]."""
    return 4 * prod(other) * a[-1]


def _least_squares(a: Shape, b: Shape, *_: Any, out_shape: Sequence[Shape], **__: Any) -> int:
    """A QR decomposition of `a` [..., m, n] for each system, and its reflections and a substitution of `b` [..., m, k],
    or [..., m]."""
    solutions = prod(out_shape[0]) // a[-1]
    systems = solutions // (1 if len(out_shape[0]) < len(a) or len(b) == 1 else b[-1])
    return a[-2] * a[-1] * (2 * systems * min(a[-2:]) + 5 * solutions)


def _inverted(a: Shape, *_: Any, hermitian: bool = False, **__: Any) -> int:
    """A pseudo-inverse: a decomposition, and a product of its factors."""
    return _factored((9 if hermitian else 22) + 2)(a)


def _convolution_backward(
    out: Shape, x: Shape, weight: Shape, _bias: Any, _stride: Any, _padding: Any, _dilation: Any, transposed: bool,
    _more: Any, _groups: int, wanted: Sequence[bool], **__: Any,
) -> int:  # fmt: skip
    """The gradients of the input and of the weight cost what the convolution did, each. torch's own formula counts the
    second as if there were no groups."""
    places = prod((x if transposed else out)[2:])
    return 2 * x[0] * places * prod(weight) * sum(wanted[:2])


def _convolution_tbc(_: Any, weight: Shape, *__: Any, out_shape: Shape, **___: Any) -> int:
    """`weight` [taps, in, out]."""
    return 2 * prod(out_shape) * weight[0] * weight[1]


def _recurrent(times: int) -> Formula:
    """A layer of nn.LSTM: `x` [T, B, in], weights [4 width, in] and [4 width, width], and ~ 4 operations a gate."""
    return lambda x, own, before, *_, **__: times * prod(x[:-1]) * (2 * (prod(own) + prod(before)) + 4 * own[0])


def _trilinear(a: Shape, b: Shape, c: Shape, at_a: Any, at_b: Any, at_c: Any, *_: Any, **__: Any) -> int:
    """Sums of products of three tensors, which get dimensions of 1 at the places `at_*` and are expanded."""
    sides = [_widened(shape, at) for shape, at in ((a, at_a), (b, at_b), (c, at_c))]
    return 2 * int(prod(max(side) for side in zip(*sides, strict=True)))


def _widened(shape: Shape, places: Sequence[int]) -> list[int]:
    found = list(shape)
    for place in sorted(places):
        found.insert(place, 1)
    return found


def _distances(a: Shape, *_: Any, out_shape: Shape, **__: Any) -> int:
    """Distances [..., n, m] of the rows of `a` [..., n, d]: a difference, a power and a sum."""
    return 3 * prod(out_shape) * a[-1]


def _distances_backward(distances: Shape, a: Shape, *_: Any, **__: Any) -> int:
    return 3 * prod(distances) * a[-1]


def _own_distances(x: Shape) -> int:
    """Distances between all pairs of rows of `x` [n, d], each pair once."""
    return 3 * prod(x) * (x[0] - 1) // 2


def _bags(weight: Shape, indices: Shape, *_: Any, **__: Any) -> int:
    """Sums of rows of `weight` [rows, d], each times a number."""
    return 2 * prod(indices) * weight[-1]


def _fourier(per_number: float, shape: Shape, sides: Sequence[int]) -> int:
    return int(per_number * prod(shape) * log2(max(1, prod(shape[side] for side in sides))))


def _pooled(out: Shape, window: Sequence[int], sides: int = 2) -> int:
    """`window` is one number for all sides, or one for each."""
    return prod(out) * (prod(window) if len(window) > 1 else window[0] ** sides)


_ops = torch.ops.aten

FORMULAS: dict[Any, Formula] = {
    # Products.
    _ops.mv: _product,
    _ops.dot: _product,
    _ops.vdot: _product,
    _ops.addmv: _added,
    _ops.addmv_: _added,
    _ops.addmm_: _added,
    _ops.baddbmm_: _added,
    _ops.addbmm: _added,
    _ops.addbmm_: _added,
    _ops._sparse_addmm: _added,  # as if it were dense, like the next two
    _ops._sparse_sparse_matmul: _product,
    _ops._sparse_mm_reduce_impl: _product,
    _ops.sparse_sampled_addmm: _added,
    _ops.mkldnn_linear: lambda x, weight, *_, **__: 2 * prod(x) * weight[0],
    _ops._trilinear: _trilinear,
    _ops._embedding_bag: _bags,
    _ops._embedding_bag_forward_only: _bags,
    _ops._embedding_bag_backward: lambda out, indices, *_, **__: _bags(out, indices),
    _ops._embedding_bag_per_sample_weights_backward: lambda _, weight, indices, *__, **___: _bags(weight, indices),
    _ops._scaled_dot_product_flash_attention_for_cpu: lambda q, k, v, *_, **__: sdpa_flop_count(q, k, v),
    _ops._scaled_dot_product_flash_attention_for_cpu_backward: (
        lambda out, q, k, v, *_, **__: sdpa_backward_flop_count(out, q, k, v)
    ),
    # Convolutions, recurrent layers, pools.
    _ops.convolution_backward: _convolution_backward,
    _ops.conv_tbc: _convolution_tbc,
    _ops.mkldnn_rnn_layer: _recurrent(1),
    _ops.mkldnn_rnn_layer_backward: _recurrent(2),
    _ops.avg_pool2d: lambda _, window, *__, out_shape, **___: _pooled(out_shape, window),
    _ops.avg_pool2d_backward: lambda out, _, window, *__, **___: _pooled(out, window),
    _ops.max_pool2d_with_indices: lambda _, window, *__, out_shape, **___: _pooled(out_shape[0], window),
    _ops.avg_pool3d: lambda _, window, *__, out_shape, **___: _pooled(out_shape, window, 3),
    _ops.avg_pool3d_backward: lambda out, _, window, *__, **___: _pooled(out, window, 3),
    _ops.max_pool3d_with_indices: lambda _, window, *__, out_shape, **___: _pooled(out_shape[0], window, 3),
    # Distances.
    _ops._cdist_forward: _distances,
    _ops._cdist_backward: _distances_backward,
    _ops._euclidean_dist: _distances,
    _ops._pdist_forward: lambda x, *_, **__: _own_distances(x),
    _ops._pdist_backward: lambda _, x, *__, **___: 2 * _own_distances(x),
    # Fourier transforms: a real one is half a complex one.
    _ops._fft_c2c: lambda x, sides, *_, **__: _fourier(5, x, sides),
    _ops._fft_r2c: lambda x, sides, *_, **__: _fourier(5 / 2, x, sides),
    _ops._fft_c2r: lambda _, sides, *__, out_shape, **___: _fourier(5 / 2, out_shape, sides),
    # Systems.
    _ops.linalg_solve_triangular: _triangular,
    _ops.triangular_solve: lambda _, a, *__, out_shape, **___: _triangular(a, out_shape=out_shape[0]),
    _ops._linalg_solve_ex: _solve,
    _ops.linalg_lu_solve: lambda lu, *_, out_shape, **__: _twice(lu, out_shape),
    _ops.linalg_ldl_solve: lambda ld, *_, out_shape, **__: _twice(ld, out_shape),
    _ops.cholesky_solve: lambda _, a, *__, out_shape, **___: _twice(a, out_shape),
    _ops.linalg_lstsq: _least_squares,
    # Factorisations, and what follows from one.
    _ops.linalg_lu: _factored(2 / 3),
    _ops.linalg_lu_factor_ex: _factored(2 / 3),
    _ops._linalg_det: _factored(2 / 3),
    _ops._linalg_slogdet: _factored(2 / 3),
    _ops.linalg_ldl_factor_ex: _factored(1 / 3),
    _ops.linalg_cholesky_ex: _factored(1 / 3),
    _ops.cholesky: _factored(1 / 3),
    _ops.cholesky_inverse: _factored(2 / 3),
    _ops.linalg_inv_ex: _factored(2),
    _ops.linalg_pinv: _inverted,
    _ops.linalg_qr: _factored(8 / 3),
    _ops.geqrf: _factored(4 / 3),
    _ops.linalg_householder_product: _factored(4 / 3),
    _ops.ormqr: _reflected,
    # Decompositions.
    _ops._linalg_eigh: _factored(9),
    _ops.linalg_eig: _factored(25),
    _ops._linalg_svd: _factored(22),
    _ops.linalg_matrix_exp: _factored(20),
}
