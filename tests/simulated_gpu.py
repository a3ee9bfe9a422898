"""Simulate a GPU: tensors report the device ``cuda:0``, and the work that a GPU would do is counted.

Within ``SimulatedGpu``, every tensor is on the device unless it was created without a device (``torch.tensor``,
``torch.arange``, ``.cpu()``, ...). The arithmetic is done on the CPU. The simulation observes the following:

* an operation with operands on both devices, which is an error as in CUDA;
* a wait of the CPU for the device: a Python number or truth value of a tensor, a copy to the CPU, or a size that
  depends on values (``nonzero``, masks as indices);
* a copy from the CPU to the device;
* the launch of a kernel, which is any PyTorch operation except views. ``nn.LSTM`` and ``nn.GRU`` count as one kernel
  forward and one backward, as in cuDNN. As in CUDA and unlike on a CPU, a cell counts as two products and a fused
  kernel forward, and as one fused kernel, four products and two sums backward. Dropout counts as one kernel in each
  direction. Other operations that CUDA splits into several kernels count once. The counts are meant to compare models
  and commits, and not to predict seconds;
* within ``autocast``, the casts of CUDA. They follow CUDA's lists of operations, which differ from those of a CPU. A
  recurrent network whose operands have several dtypes is an error, as in cuDNN.

"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

DEVICE = torch.device("cuda:0")
_HOST = "_is_on_the_host"  # marks a tensor that is not on the device

# Operations that wait for the device, identified by the end of their name.
_WAITS = ("item", "tolist", "__bool__", "__int__", "__float__", "__index__", "__len__item", "nonzero", "masked_select")
_WAITS += ("unique", "unique_consecutive", "numpy", "is_nonzero", "equal", "__contains__")
# Functions whose results are on the CPU by default.
_FACTORIES = {"tensor", "as_tensor", "arange", "zeros", "ones", "full", "empty", "rand", "randn", "randint", "randperm"}
_FACTORIES |= {"from_numpy", "linspace", "eye", "tril_indices", "triu_indices", "scalar_tensor"}
# Operations that may have operands on both devices.
_COPIES = {"copy_", "to", "type_as", "cpu", "cuda", "set_", "__set__"}
# Lengths of packed sequences are on the CPU, both as arguments and as the second result.
_PACKING = {"_pack_padded_sequence", "_pad_packed_sequence"}
# Numbers of kernels, forward and backward, of operations that CUDA implements differently from a CPU.
_RECURRENT = {"lstm": (1, 1), "gru": (1, 1), "lstm_cell": (3, 7), "gru_cell": (3, 7)}
_RECURRENT |= {"_thnn_fused_lstm_cell": (1, 1), "_thnn_fused_gru_cell": (1, 1)}
_INDEXING = {"__getitem__", "__setitem__", "index_put", "index_put_", "index"}
# Operations that autocast computes in half precision, in float32, in float32 depending on an argument, and in the
# widest dtype of the operands (docs.pytorch.org/docs/stable/amp.html, "CUDA Ops that can autocast to ...").
_HALF = {"linear", "matmul", "__matmul__", "__rmatmul__", "mm", "bmm", "addmm", "baddbmm", "addbmm", "mv", "addmv"}
_HALF |= {"scaled_dot_product_attention", *_RECURRENT}
_FLOAT32 = {"exp", "expm1", "log", "log10", "log2", "log1p", "pow", "__pow__", "__rpow__", "reciprocal", "rsqrt"}
_FLOAT32 |= {
    "softplus",
    "norm",
    "layer_norm",
    "nll_loss",
    "cross_entropy",
    "kl_div",
    "binary_cross_entropy_with_logits",
}
_FLOAT32 |= {
    "linalg_vector_norm",
    "cosine_similarity",
    "mse_loss",
    "l1_loss",
    "logsumexp",
    "acos",
    "asin",
    "sinh",
    "tan",
}
_FLOAT32_RESULT = {"softmax", "log_softmax", "sum", "prod", "cumsum", "cumprod"}
_WIDEST = {"addcmul", "addcdiv", "atan2", "bilinear", "cross", "dot", "index_put", "scatter_add", "cat", "stack"}


def on_host(tensor: torch.Tensor) -> bool:
    """Return True if a tensor is not on the simulated device. Scalars are allowed on both devices."""
    return bool(getattr(tensor, _HOST, False))


class SimulatedGpu(TorchFunctionMode):
    """See the module docstring.

    Attributes:
        launches: number of operations other than views, by name.
        waits: number of waits of the CPU for the device, by name.
        copies: number of copies from the CPU to the device.
    """

    def __init__(self) -> None:
        super().__init__()
        self.launches: Counter[str] = Counter()
        self.waits: Counter[str] = Counter()
        self.copies = 0
        self._counter = _Launches(self)
        self._casts: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # casts of parameters within ``autocast``

    def __enter__(self) -> "SimulatedGpu":
        self._counter.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._counter.__exit__(*error)

    def counts(self) -> dict[str, float]:
        """Return all counts so far."""
        return {"launches": self.launches.total(), "waits": self.waits.total(), "copies": self.copies}

    @contextmanager
    def autocast(self, dtype: torch.dtype) -> Iterator[None]:
        """Enter ``torch.autocast("cuda", dtype)`` as on a GPU.

        The same call in the tested code would disable it again.
        """
        torch.set_autocast_dtype("cuda", dtype)
        torch.set_autocast_enabled("cuda", True)
        try:
            yield
        finally:
            torch.set_autocast_enabled("cuda", False)
            self._casts.clear()

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")  # for an attribute, this is the name of the attribute
        if name == "__get__":
            name = (resolve_name(func) or "").removesuffix(".__get__").rpartition(".")[2]
        tensors = [leaf for leaf in _leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        if name in ("device", "is_cuda", "is_cpu", "get_device"):
            return self._place(name, args[0])
        if torch.is_autocast_enabled("cuda"):
            args, kwargs = self._cast_operands(name, args, kwargs)
            tensors = [leaf for leaf in _leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        host = [on_host(tensor) for tensor in tensors]
        self._check_operands(name, tensors, host)
        target = _wanted_device(name, args, kwargs)
        self._count(name, args, tensors, host, target)
        all_host = bool(tensors) and all(host)
        outer, self._counter.on_host = self._counter.on_host, all_host or (not tensors and target is None)
        try:
            if name in _RECURRENT:
                dtypes = {tensor.dtype for tensor in tensors if tensor.is_floating_point()}
                if len(dtypes) > 1:
                    raise RuntimeError(f"{name} has operands of several dtypes: {dtypes}")
                return self._recurrent(_FUSED_CELLS.get(name, func), args, _RECURRENT[name])
            if name == "dropout" and not all_host and kwargs["training"] and kwargs["p"]:
                return self._recurrent(partial(func, **kwargs), args, (1, 1))
            if name == "mm" and "out_dtype" in kwargs:
                return self._widened_product(*args, kwargs["out_dtype"])
            result = func(*_map(_real_device, args), **_map(_real_device, kwargs))
        finally:
            self._counter.on_host = outer
        goes_to_host = (target is not None and target.type == "cpu") or name in ("cpu", "numpy")
        stays = target is None and (all_host or (not tensors and name in _FACTORIES))
        if name in _PACKING:
            return result[0], _mark(result[1], True, [])
        return _map(lambda leaf: _mark(leaf, goes_to_host or stays, tensors), result)

    def _recurrent(self, func: Callable[..., Any], args: tuple[Any, ...], kernels: tuple[int, int]) -> Any:
        """Run a recurrent network, a cell or dropout, and count a given number of kernels, forward and backward."""
        leaves, spec = tree_flatten(args)
        places = [number for number, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

        def run(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
            for number, tensor in zip(places, tensors, strict=True):
                leaves[number] = tensor
            result = func(*tree_unflatten(leaves, spec))
            return (result,) if isinstance(result, torch.Tensor) else tuple(result)

        results = _Kernels.apply(run, self._counter, kernels, *(leaves[number] for number in places))
        return results if len(results) > 1 else results[0]

    def _widened_product(self, left: torch.Tensor, right: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Compute a product in a wider dtype than its factors, which only CUDA can do in one operation."""
        with self._counter.counted_as("mm", 1):
            return left.to(dtype) @ right.to(dtype)

    def _cast_operands(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """Return the operands as autocast casts them."""
        halves = [leaf for leaf in _leaves((args, kwargs)) if _is_cast(leaf) and leaf.dtype != torch.float32]
        if name in _FLOAT32_RESULT:
            return args, (kwargs if kwargs.get("dtype") or not halves else kwargs | {"dtype": torch.float32})
        if name not in _HALF | _FLOAT32 | _WIDEST or (name == "mm" and "out_dtype" in kwargs):
            return args, kwargs
        floats = [leaf for leaf in _leaves((args, kwargs)) if _is_cast(leaf)]
        if name in _WIDEST and len(halves) in (0, len(floats)):
            return args, kwargs
        dtype = torch.get_autocast_dtype("cuda") if name in _HALF else torch.float32
        return _map(lambda leaf: self._cast(leaf, dtype), (args, kwargs))  # type: ignore[no-any-return]

    def _cast(self, leaf: Any, dtype: torch.dtype) -> Any:
        """Cast a tensor that is on the device. The cast of a parameter is cached until the end of ``autocast``."""
        if not _is_cast(leaf) or leaf.dtype == dtype:
            return leaf
        if not (leaf.is_leaf and leaf.requires_grad):
            return leaf.to(dtype)
        if id(leaf) not in self._casts:
            self._casts[id(leaf)] = leaf, leaf.to(dtype)
        return self._casts[id(leaf)][1]

    @staticmethod
    def _place(name: str, tensor: torch.Tensor) -> Any:
        host = on_host(tensor)
        places = {"device": torch.device("cpu") if host else DEVICE, "is_cuda": not host, "is_cpu": host}
        return places.get(name, -1 if host else 0)

    @staticmethod
    def _check_operands(name: str, tensors: list[torch.Tensor], host: list[bool]) -> None:
        large = {place for tensor, place in zip(tensors, host, strict=True) if tensor.dim()}
        if len(large) == 2 and name not in _COPIES | _INDEXING | _PACKING | {"lstm", "gru"}:
            shapes = [
                (tuple(tensor.shape), "host" if place else "GPU") for tensor, place in zip(tensors, host, strict=True)
            ]
            raise RuntimeError(f"{name} has operands on two devices: {shapes}")

    def _count(
        self, name: str, args: tuple[Any, ...], tensors: list[torch.Tensor], host: list[bool], target: Any
    ) -> None:
        from_device = bool(host) and not all(host)
        if from_device and (name in _WAITS or _by_mask(name, args) or _goes(target, name, "cpu")):
            self.waits[name] += 1
        if host and host[0] and _goes(target, name, "cuda"):
            self.copies += 1
        if name in ("tensor", "as_tensor") and not tensors and target is not None and target.type == "cuda":
            self.copies += 1
        if name in _INDEXING and from_device and any(host[1:]):
            self.copies += 1


def _leaves(value: Any) -> list[Any]:
    """Return the values in tuples, lists and dictionaries. This is ten times as fast as PyTorch's function."""
    if isinstance(value, tuple | list | dict):
        return [leaf for one in (value.values() if isinstance(value, dict) else value) for leaf in _leaves(one)]
    return [value]


def _map(func: Callable[[Any], Any], value: Any) -> Any:
    """Apply ``func`` to each leaf of ``value``.

    Other containers, such as PyTorch's types of results, are left to ``tree_map``.
    """
    if type(value) in (tuple, list):
        return type(value)([_map(func, one) for one in value])
    if type(value) is dict:
        return {name: _map(func, one) for name, one in value.items()}
    return tree_map(func, value) if isinstance(value, tuple | list | dict) else func(value)


def _fused_lstm_cell(
    input_gates: torch.Tensor, hidden_gates: torch.Tensor, cell: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """Compute the same result as CUDA's kernel with this name."""
    gates = (input_gates + hidden_gates).chunk(4, dim=1)
    new_cell = gates[1].sigmoid() * cell + gates[0].sigmoid() * gates[2].tanh()
    return gates[3].sigmoid() * new_cell.tanh(), new_cell, torch.cat(gates, dim=1)


def _fused_gru_cell(
    input_gates: torch.Tensor, hidden_gates: torch.Tensor, hidden: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """Compute the same result as CUDA's kernel with this name."""
    given, own = input_gates.chunk(3, dim=1), hidden_gates.chunk(3, dim=1)
    reset, update = ((one + other).sigmoid() for one, other in zip(given[:2], own[:2], strict=True))
    new = (given[2] + reset * own[2]).tanh()
    return new + update * (hidden - new), torch.cat(own, dim=1)


# CPUs have no such kernels
_FUSED_CELLS = {"_thnn_fused_lstm_cell": _fused_lstm_cell, "_thnn_fused_gru_cell": _fused_gru_cell}


class _Kernels(torch.autograd.Function):
    """Autograd function that counts as a given number of kernels in the forward and in the backward pass."""

    @staticmethod
    def forward(
        ctx: Any,
        run: Callable[..., tuple[torch.Tensor, ...]],
        counter: "_Launches",
        kernels: tuple[int, int],
        *tensors: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        ctx.set_materialize_grads(False)  # CUDA's kernels accept missing gradients
        ctx.counter, ctx.kernels = counter, kernels
        ctx.needed = ctx.needs_input_grad[3:]
        inputs = [tensor.detach().requires_grad_(needed) for tensor, needed in zip(tensors, ctx.needed, strict=True)]
        with counter.counted_as("recurrent network", kernels[0]), torch.enable_grad():
            results = run(*inputs)
        ctx.inputs, ctx.results = inputs, results
        return tuple(result.detach() for result in results)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        results = [result for result, grad in zip(ctx.results, grads, strict=True) if grad is not None]
        given = [grad for grad in grads if grad is not None]
        wanted = [tensor for tensor, needed in zip(ctx.inputs, ctx.needed, strict=True) if needed]
        with torch._C.DisableTorchFunction(), ctx.counter.counted_as("recurrent, backward", ctx.kernels[1]):
            found = iter(torch.autograd.grad(results, wanted, given, allow_unused=True))
        return None, None, None, *(next(found) if needed else None for needed in ctx.needed)


class _Launches(TorchDispatchMode):
    """Count the operations below ``SimulatedGpu`` that do not run on the host."""

    def __init__(self, gpu: SimulatedGpu) -> None:
        super().__init__()
        self.gpu = gpu
        self.on_host = False

    @contextmanager
    def counted_as(self, name: str, kernels: int) -> Iterator[None]:
        """Count all operations in the block as this number of launches."""
        self.gpu.launches[name] += kernels
        outer, self.on_host = self.on_host, True
        try:
            yield
        finally:
            self.on_host = outer

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if not self.on_host and not func.is_view and func.overloadpacket.__name__ not in _NO_KERNELS:
            self.gpu.launches[func.overloadpacket.__name__] += 1
        return func(*args, **(kwargs or {}))


# Operations that launch no kernel: they read a value or allocate memory.
_NO_KERNELS = {"_local_scalar_dense", "empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided"}
_NO_KERNELS |= {"_unsafe_view", "_reshape_alias", "detach", "lift_fresh", "alias"}


def _wanted_device(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.device | None:
    """Return the device that a call requests, or ``None`` if the call requests none."""
    if name in ("cpu", "cuda"):
        return torch.device(name)
    wanted = kwargs.get("device")
    if wanted is None and name == "to":
        wanted = next((argument for argument in args[1:] if isinstance(argument, str | torch.device)), None)
        others = [argument for argument in args[1:] if isinstance(argument, torch.Tensor)]
        if wanted is None and others:
            return torch.device("cpu") if on_host(others[0]) else DEVICE
    return None if wanted is None else torch.device(wanted)


def _goes(target: torch.device | None, name: str, kind: str) -> bool:
    return target is not None and target.type == kind and name in _COPIES


def _by_mask(name: str, args: tuple[Any, ...]) -> bool:
    """Return True if the size of an indexing result depends on a mask. Return False for assignments."""
    if name not in ("__getitem__", "index"):
        return False
    leaves: Iterator[Any] = iter(_leaves(args[1:]))
    return any(isinstance(leaf, torch.Tensor) and leaf.dtype == torch.bool for leaf in leaves)


def _is_cast(leaf: Any) -> bool:
    """Return True if autocast may cast an operand."""
    kinds = (torch.float32, torch.float16, torch.bfloat16)
    return isinstance(leaf, torch.Tensor) and leaf.dtype in kinds and not on_host(leaf)


def _real_device(argument: Any) -> Any:
    """Return the argument with a CUDA device replaced by the CPU."""
    if isinstance(argument, torch.device) and argument.type == "cuda":
        return torch.device("cpu")
    return "cpu" if isinstance(argument, str) and argument.startswith("cuda") else argument


def _mark(leaf: Any, host: bool, inputs: list[torch.Tensor]) -> Any:
    """Mark a result. A result that is an input from the other device becomes a separate tensor first."""
    if not isinstance(leaf, torch.Tensor) or on_host(leaf) == host:
        return leaf
    with torch._C.DisableTorchFunction():
        if any(leaf is tensor for tensor in inputs):
            leaf = leaf.detach() if not leaf.requires_grad else leaf.view_as(leaf)
        setattr(leaf, _HOST, host)
    return leaf
