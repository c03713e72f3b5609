"""Triton kernels for one training step of many groups at once.

    lay_out   tokens -> LayerNorm -> keys [n, H, T, d] in half precision (keys are values: nothing is projected)
    attend    per sample and head: attention, and the three sums that the last LayerNorm needs
    losses    per sample: logits, and the derivatives of the loss with respect to them
    pull      per sample and head: gradients of queries and heads, summed over a few samples
    update    per adapter: the rest of the backward pass, AdamW, and the next step's queries and heads

Queries are kept multiplied by log2(e) / sqrt(d), so that attention is a power of two of a plain product.

Batch-invariant: a program processes the numbers of one group in a fixed order, and every shape that the compiler sees
(class block, tokens, dimensions, samples per program) depends on that group alone.

Names: s the step, g the group, c the adapter, h the head, t the token. Rows of a step: [steps, G, B], -1 if empty.
"""

import triton
import triton.language as tl

LIFT = 1024.0  # gradients pass through half precision multiplied by this power of two: none underflows


@triton.jit
def lay_out(tokens, sample_of, place_of, keys, eps, stride_t, D: tl.constexpr, BD: tl.constexpr, DH: tl.constexpr):
    i = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, BD)
    real = d < D
    x = tl.load(tokens + i * D + d, mask=real, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / D
    x = tl.where(real, x - mean, 0.0)
    x = x * tl.rsqrt(tl.sum(x * x, axis=0) / D + eps)
    sample, place = tl.load(sample_of + i).to(tl.int64), tl.load(place_of + i)
    where = ((sample * (D // DH) + d // DH) * stride_t + place) * DH + d % DH
    tl.store(keys + where, x.to(keys.dtype.element_ty), mask=real)


@triton.jit
def _attention(keys, lengths, row, h, q, stride_t, H: tl.constexpr, TP: tl.constexpr, DH: tl.constexpr):
    """One sample's keys of a head [TP, DH], the attention of every adapter [CB, TP], what it gathers [CB, DH].

    A row of -1 means no sample: all keys are zero then, and nothing is infinite.
    """
    t, d = tl.arange(0, TP), tl.arange(0, DH)
    length = tl.load(lengths + row, mask=row >= 0, other=0)
    base = keys + (row.to(tl.int64) * H + h) * stride_t * DH
    k = tl.load(base + t[:, None] * DH + d[None, :], mask=t[:, None] < length, other=0.0)
    scores = tl.where((t[None, :] < length) | (length == 0), tl.dot(q, tl.trans(k)), float("-inf"))
    p = tl.exp2(scores - tl.max(scores, axis=1)[:, None])
    p = p / tl.sum(p, axis=1)[:, None]
    return k, p, tl.dot(p.to(k.dtype), k)


@triton.jit(do_not_specialize=["groups", "stride_t"])
def attend(
    keys, lengths, rows, counts, step, queries, heads, stats, groups, stride_t,
    H: tl.constexpr, TP: tl.constexpr, DH: tl.constexpr, CP: tl.constexpr, CB: tl.constexpr,
    B: tl.constexpr, CHUNK: tl.constexpr, CHUNKS: tl.constexpr, SHARED: tl.constexpr,
):  # fmt: skip
    g, chunk, h = tl.program_id(0) // CHUNKS, tl.program_id(0) % CHUNKS, tl.program_id(1)
    c, d = tl.program_id(2) * CB + tl.arange(0, CB), tl.arange(0, DH)
    owner = 0 if SHARED else g  # in inference, all samples use the same adapters
    mine = (owner * CP + c[:, None]) * (H * DH) + h * DH + d[None, :]
    q, v = tl.load(queries + mine), tl.load(heads + mine)
    s = tl.load(step)
    if chunk * CHUNK < tl.load(counts + s * groups + g):  # else there is no sample for this program
        for j in range(CHUNK):
            b = chunk * CHUNK + j
            row = tl.load(rows + (s * groups + g) * B + b, mask=b < B, other=-1)
            _, _, o = _attention(keys, lengths, row, h, q, stride_t, H, TP, DH)
            out = stats + (((g * B + b).to(tl.int64) * H + h) * 3) * CP + c
            tl.store(out, tl.sum(o * v, axis=1), mask=row >= 0)
            tl.store(out + CP, tl.sum(o * o, axis=1), mask=row >= 0)
            tl.store(out + 2 * CP, tl.sum(o, axis=1), mask=row >= 0)


@triton.jit(do_not_specialize=["groups"])
def losses(
    rows, step, stats, targets, classes, counts, background, coefficients, groups, eps,
    H: tl.constexpr, DH: tl.constexpr, CP: tl.constexpr, B: tl.constexpr, BCE: tl.constexpr,
):  # fmt: skip
    g, b = tl.program_id(0) // B, tl.program_id(0) % B
    s = tl.load(step)
    row = tl.load(rows + (s * groups + g) * B + b)
    if row >= 0:
        c = tl.arange(0, CP)
        dot = tl.zeros([CP], tl.float32)
        square = tl.zeros([CP], tl.float32)
        total = tl.zeros([CP], tl.float32)
        for h in range(H):
            at = stats + (((g * B + b).to(tl.int64) * H + h) * 3) * CP + c
            dot += tl.load(at)
            square += tl.load(at + CP)
            total += tl.load(at + 2 * CP)
        mean = total / (H * DH)
        scale = tl.rsqrt(square / (H * DH) - mean * mean + eps)
        logits = dot * scale
        real = c < tl.load(classes + g)
        if BCE:
            p = 1 / (1 + tl.exp(-logits))
        else:
            y = tl.where(real, logits, float("-inf"))
            none = tl.load(background + g) != 0
            top = tl.max(y, axis=0)
            top = tl.where(none & (top < 0), 0.0, top)
            p = tl.exp(y - top)
            p = p / (tl.sum(p, axis=0) + tl.where(none, tl.exp(-top), 0.0))
        hot = (c == tl.load(targets + row)).to(tl.float32)
        grad = tl.where(real, (p - hot) / tl.load(counts + s * groups + g), 0.0)
        out = coefficients + (g * B + b).to(tl.int64) * 3 * CP + c
        tl.store(out, grad * scale)
        tl.store(out + CP, grad * logits * scale * scale)
        tl.store(out + 2 * CP, mean)


@triton.jit(do_not_specialize=["groups", "stride_t"])
def pull(
    keys, lengths, rows, counts, step, queries, heads, coefficients, partial, groups, stride_t, lift,
    H: tl.constexpr, TP: tl.constexpr, DH: tl.constexpr, CP: tl.constexpr, CB: tl.constexpr,
    B: tl.constexpr, CHUNK: tl.constexpr, CHUNKS: tl.constexpr,
):  # fmt: skip
    g, chunk, h = tl.program_id(0) // CHUNKS, tl.program_id(0) % CHUNKS, tl.program_id(1)
    c, d = tl.program_id(2) * CB + tl.arange(0, CB), tl.arange(0, DH)
    mine = (g * CP + c[:, None]) * (H * DH) + h * DH + d[None, :]
    q, v = tl.load(queries + mine), tl.load(heads + mine)
    s = tl.load(step)
    grad_q, grad_v = tl.zeros([CB, DH], tl.float32), tl.zeros([CB, DH], tl.float32)
    if chunk * CHUNK < tl.load(counts + s * groups + g):  # else there is no sample for this program
        for j in range(CHUNK):
            b = chunk * CHUNK + j
            row = tl.load(rows + (s * groups + g) * B + b, mask=b < B, other=-1)
            k, p, o = _attention(keys, lengths, row, h, q, stride_t, H, TP, DH)
            at = coefficients + (g * B + b).to(tl.int64) * 3 * CP + c
            scaled = tl.load(at, mask=row >= 0, other=0.0)
            shrink = tl.load(at + CP, mask=row >= 0, other=0.0)
            mean = tl.load(at + 2 * CP, mask=row >= 0, other=0.0)
            grad_v += scaled[:, None] * o
            grad_o = scaled[:, None] * v - shrink[:, None] * (o - mean[:, None]) / (H * DH)
            grad_o = grad_o * lift
            grad_p = tl.dot(grad_o.to(k.dtype), tl.trans(k))
            inner = tl.sum(grad_o * o, axis=1)
            grad_s = p * (grad_p - inner[:, None])
            grad_q += tl.dot(grad_s.to(k.dtype), k)
        out = partial + ((g * CHUNKS + chunk).to(tl.int64) * 2 * CP + c[:, None]) * (H * DH) + h * DH + d[None, :]
        tl.store(out, grad_q / lift)
        tl.store(out + CP * H * DH, grad_v)


@triton.jit
def _row_sum(x, real):
    return tl.sum(tl.where(real, x, 0.0), axis=0)


@triton.jit
def _adamw(p, m, u, grad, lr, decay, fix1, fix2):
    m = m + 0.1 * (grad - m)
    u = u * 0.999 + grad * grad * 0.001
    p = p * (1 - lr * decay)
    return p - lr / fix1 * (m / (tl.sqrt(u) / fix2 + 1e-8)), m, u


@triton.jit(do_not_specialize=["groups"])
def update(
    step, partial, classes, counts, rates, corrections, weights, means, squares, queries, heads,
    groups, decay, eps, root, base,
    D: tl.constexpr, BD: tl.constexpr, CP: tl.constexpr, CHUNK: tl.constexpr, CHUNKS: tl.constexpr,
):  # fmt: skip
    g, c = tl.program_id(0), tl.program_id(1)
    s = tl.load(step)
    count = tl.load(counts + s * groups + g)
    if (c < tl.load(classes + g)) & (count > 0):
        d = tl.arange(0, BD)
        real = d < D
        grad_q, grad_v = tl.zeros([BD], tl.float32), tl.zeros([BD], tl.float32)
        for chunk in range(CHUNKS):
            if chunk * CHUNK < count:
                at = partial + ((g * CHUNKS + chunk).to(tl.int64) * 2 * CP + c) * D + d
                grad_q += tl.load(at, mask=real, other=0.0)
                grad_v += tl.load(at + CP * D, mask=real, other=0.0)
        q_at, v_at = (g.to(tl.int64) * 2 * CP + c) * D + d, (g.to(tl.int64) * 2 * CP + CP + c) * D + d
        q = tl.load(weights + q_at, mask=real, other=0.0)
        v = tl.load(weights + v_at, mask=real, other=0.0)
        centred = tl.where(real, q - _row_sum(q, real) / D, 0.0)
        scale = tl.rsqrt(_row_sum(centred * centred, real) / D + eps)
        normed = centred * scale
        grad_q = grad_q * root
        grad_q = scale * (grad_q - _row_sum(grad_q, real) / D - normed * (_row_sum(grad_q * normed, real) / D))
        grad_v = grad_v - _row_sum(grad_v, real) / D
        lr, fix1, fix2 = tl.load(rates + s * groups + g), tl.load(corrections + 2 * s), tl.load(corrections + 2 * s + 1)
        m, u = tl.load(means + q_at, mask=real, other=0.0), tl.load(squares + q_at, mask=real, other=0.0)
        q, m, u = _adamw(q, m, u, grad_q, lr, decay, fix1, fix2)
        tl.store(weights + q_at, q, mask=real)
        tl.store(means + q_at, m, mask=real)
        tl.store(squares + q_at, u, mask=real)
        m, u = tl.load(means + v_at, mask=real, other=0.0), tl.load(squares + v_at, mask=real, other=0.0)
        v, m, u = _adamw(v, m, u, grad_v, lr, decay, fix1, fix2)
        tl.store(weights + v_at, v, mask=real)
        tl.store(means + v_at, m, mask=real)
        tl.store(squares + v_at, u, mask=real)
        centred = tl.where(real, q - _row_sum(q, real) / D, 0.0)
        scale = tl.rsqrt(_row_sum(centred * centred, real) / D + eps)
        mine = (g.to(tl.int64) * CP + c) * D + d
        tl.store(queries + mine, (centred * scale * (root * base)).to(queries.dtype.element_ty), mask=real)
        tl.store(heads + mine, v - _row_sum(v, real) / D, mask=real)
