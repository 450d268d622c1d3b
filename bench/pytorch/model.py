"""The bench's model in plain PyTorch: Qwen3 layers, tied head, weights [out, in]. The caller of `hidden` passes the attention."""
import torch
import torch.nn.functional as F

LAYERS, WIDTH, HEADS, KV_HEADS, HEAD, FFN, VOCABULARY = 4, 192, 6, 2, 32, 512, 2048
EPSILON = 1e-6


def parameters(seed=1):
    torch.manual_seed(seed)
    normal = lambda out, inp: (torch.randn(out, inp) / inp**0.5).requires_grad_()
    constant = lambda n, value=1.0: torch.full((n,), value).requires_grad_()
    layers = [
        dict(
            n1=constant(WIDTH), q=normal(HEADS * HEAD, WIDTH), k=normal(KV_HEADS * HEAD, WIDTH), v=normal(KV_HEADS * HEAD, WIDTH),
            o=normal(WIDTH, HEADS * HEAD), qn=constant(HEAD), kn=constant(HEAD), n2=constant(WIDTH),
            gate=normal(FFN, WIDTH), up=normal(FFN, WIDTH), down=normal(WIDTH, FFN),
        )
        for _ in range(LAYERS)
    ]
    return dict(embedding=torch.randn(VOCABULARY, WIDTH).requires_grad_(), layers=layers, norm=constant(WIDTH, WIDTH**-0.5))


def tensors(p):
    return [p["embedding"], p["norm"], *(w for layer in p["layers"] for w in layer.values())]


def norm(x, gain):
    if hasattr(F, "rms_norm"):
        return F.rms_norm(x, gain.shape, gain, EPSILON)
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPSILON) * gain


def angles(positions):
    inverse = 10000.0 ** (-torch.arange(0, HEAD, 2).float() / HEAD)
    angle = positions[:, None].float() * inverse
    angle = torch.cat([angle, angle], -1)
    return angle.cos(), angle.sin()


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


def hidden(p, ids, cos, sin, attend):
    B, T = ids.shape
    x = F.embedding(ids, p["embedding"])
    for i, w in enumerate(p["layers"]):
        h = norm(x, w["n1"])
        heads = lambda name, n: F.linear(h, w[name]).view(B, T, n, HEAD)
        q = rotate(norm(heads("q", HEADS), w["qn"]).transpose(1, 2), cos, sin)
        k = rotate(norm(heads("k", KV_HEADS), w["kn"]).transpose(1, 2), cos, sin)
        v = heads("v", KV_HEADS).transpose(1, 2)
        o = attend(i, q, k, v)
        x = x + F.linear(o.transpose(1, 2).reshape(B, T, HEADS * HEAD), w["o"])
        g = norm(x, w["n2"])
        x = x + F.linear(F.silu(F.linear(g, w["gate"])) * F.linear(g, w["up"]), w["down"])
    return norm(x, p["norm"])


def causal(i, q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
