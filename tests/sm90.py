"""The Triton kernels compiled for an H100 (sm_90), which takes no GPU, and what their innermost loops are made of.

``python -m tests.sm90``, where Triton is, writes the table; ``make test-kernels`` fails where a figure of it has grown.
"""

import json
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

TABLE = Path(__file__).resolve().parents[1] / "benchmarks/results/gpu_kernels.json"
NUMBERS = ("num_tokens", "num_candidates", "hidden", "tiles")
SHARES = ("on_target", "on_all", "scale")
UNITS = 16  # hidden units of a lane to which the instructions are scaled
WIDTHS = {"U8": 1, "U16": 2, "64": 8, "128": 16}  # bytes of a load or store by a part of its name; 4 without one


def compiled(kernel: Any, warps: int, scores: str = "*fp32", **constants: Any) -> list[str]:
    """The instructions and labels of a kernel; ``scores`` is the type of its argument of that name."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kinds = {"scores": scores, "target": "*i64"} | dict.fromkeys(NUMBERS, "i32") | dict.fromkeys(SHARES, "fp32")
    kinds |= dict.fromkeys(constants, "constexpr")
    signature = {name: kinds.get(name, "*fp32") for name in kernel.arg_names}
    pointers = [place for place, kind in enumerate(signature.values()) if kind.startswith("*")]
    aligned = {(place,): [["tt.divisibility", 16]] for place in pointers}
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=aligned)
    binary = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": warps})
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary.asm["cubin"])
        file.flush()
        tool = Path(triton.__file__).parent / "backends/nvidia/bin/nvdisasm"
        text = subprocess.run([tool, "-c", file.name], capture_output=True, text=True, check=True).stdout
    lines = re.findall(r"^\s*(\.L_x_\d+):|^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?(.*?)\s*;", text, re.MULTILINE)
    return [label or instruction for label, instruction in lines]


def inner_loops(lines: list[str]) -> list[list[str]]:
    """The instructions of each loop that has no other one in it."""
    loops = []
    for end, line in enumerate(lines):
        label = re.search(r"BRA.*`\((\.L_x_\d+)\)", line)
        start = lines.index(label[1]) if label and label[1] in lines[:end] else end
        body = [one for one in lines[start:end] if not one.startswith(".")]
        if body and not any(start < first and last <= end for first, last, _ in loops):
            loops.append((start, end, [*body, line]))
    return [body for _, _, body in loops]


def moved(loop: list[str]) -> int:
    """Bytes that a lane loads from memory and stores there."""
    names = [line.split()[0].split(".") for line in loop if line.startswith(("LDG", "STG"))]
    return sum(next((width for part, width in WIDTHS.items() if part in name), 4) for name in names)


def count() -> dict[str, float]:
    """All figures."""
    from wean_fairseq.modules import additive_kernel as additive
    from wean_fairseq.modules import softmax_kernel as softmax

    scores = compiled(
        additive._scores_kernel,
        additive.WARPS,
        NARROW=True,
        STORE=True,
        TOKENS=additive.TOKENS,
        CANDIDATES=additive.CANDIDATES,
    )
    tile = {"TOKENS": additive.MANY_TOKENS, "CANDIDATES": additive.FEW_CANDIDATES, "UNITS": additive.UNITS}
    gradients = compiled(additive._gradients_kernel, additive.WARPS, NARROW=True, **tile)
    half = compiled(softmax._softmax_gradient_kernel, softmax.WARPS, "*bf16", BIAS=False, WIDTH=softmax.WIDTH)
    lanes = 32 * additive.WARPS
    found: dict[str, float] = {}
    for name, lines, units in (
        ("scores", scores, additive.TOKENS * additive.CANDIDATES / lanes),
        ("gradients", gradients, additive.FEW_CANDIDATES * additive.UNITS / lanes),
    ):
        (loop,) = [one for one in inner_loops(lines) if any(line.startswith("MUFU.RCP") for line in one)]
        found[f"{name}, instructions"] = UNITS * len(loop) / units
        unwanted = ("MEMBAR", "FENCE", "ERRBAR", "LDL", "STL")
        found[f"{name}, fences and spills"] = sum(line.startswith(unwanted) for line in loop)
    elements = softmax.WIDTH / (32 * softmax.WARPS)
    found["softmax in bf16, bytes an element"] = sum(map(moved, inner_loops(half))) / elements
    return found


def main() -> None:
    """Write the table."""
    TABLE.write_text(json.dumps(count(), indent=1) + "\n")


if __name__ == "__main__":
    main()
