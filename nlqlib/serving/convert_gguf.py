"""Turn a Qwen2 GGUF file into the safetensors folder that vLLM reads. Runs inside the engine's environment.

`python convert_gguf.py MODEL.gguf FOLDER`. vLLM does not read GGUF on the CPU, and transformers keeps the
weights packed. A few thousand rows are unpacked at a time, so memory stays far below the model's size.
The formats are those of the public specifications of GGUF and safetensors; Qwen2 needs no permutation.
"""

import json
import re
import struct
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

Pieces = Iterable[np.ndarray]
ROWS = 4096  # rows unpacked at a time: 25 MB of a 1,536-wide matrix
SINGLE = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
IN_LAYER = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}
CONFIG = {
    "hidden_size": "embedding_length",
    "num_hidden_layers": "block_count",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "intermediate_size": "feed_forward_length",
    "max_position_embeddings": "context_length",
    "rope_theta": "rope.freq_base",
}
"""Field of the Hugging Face configuration → key of the GGUF metadata under `qwen2.`"""


def hf_name(name: str) -> str:
    """The Hugging Face name of a GGUF tensor. Raises `ValueError` for one that Qwen2 has not."""
    if name in SINGLE:
        return SINGLE[name]
    found = re.fullmatch(r"blk\.(\d+)\.(\w+)\.(weight|bias)", name)
    if not found or found[2] not in IN_LAYER:
        raise ValueError(f"tensor {name} does not belong to a Qwen2 model")
    return f"model.layers.{found[1]}.{IN_LAYER[found[2]]}.{found[3]}"


def to_bfloat16(values: np.ndarray) -> np.ndarray:
    """float32 → the upper 16 bits, rounded to nearest, ties to even, as uint16."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def safetensors_header(shapes: Mapping[str, Iterable[int]]) -> bytes:
    """The head of a safetensors file of bfloat16 tensors that follow in the order of `shapes`."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, shape in shapes.items():
        size = 2 * int(np.prod(list(shape)))
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def write_weights(path: Path, tensors: Mapping[str, tuple[list[int], Callable[[], Pieces]]]) -> None:
    """Write tensors (Hugging Face name → shape, and a call that unpacks it to pieces of float32) in turn."""
    ordered = dict(sorted(tensors.items()))
    with path.open("wb") as out:
        out.write(safetensors_header({name: shape for name, (shape, _) in ordered.items()}))
        for _, unpack in ordered.values():
            for piece in unpack():
                out.write(to_bfloat16(piece).data)


def config_fields(metadata: Callable[[str], Any], vocabulary: int, tied: bool) -> dict[str, Any]:
    """Arguments of `Qwen2Config`, read from the file's own metadata."""
    fields = {ours: metadata(f"qwen2.{theirs}") for ours, theirs in CONFIG.items()}
    return fields | {
        "rms_norm_eps": float(f"{metadata('qwen2.attention.layer_norm_rms_epsilon'):.6g}"),
        "vocab_size": vocabulary,
        "tie_word_embeddings": tied,
        "eos_token_id": metadata("tokenizer.ggml.eos_token_id"),
        "bos_token_id": metadata("tokenizer.ggml.bos_token_id"),
    }


def convert(gguf_path: Path, folder: Path) -> None:
    """Write weights, configuration and tokenizer of `gguf_path` into `folder`."""
    from gguf import GGUFReader  # these live in the engine's environment, not in ours
    from gguf.quants import dequantize

    reader = GGUFReader(gguf_path)
    architecture = reader.fields["general.architecture"].contents()
    if architecture != "qwen2":
        raise SystemExit(f"{gguf_path.name} holds a {architecture} model; only qwen2 can be converted")

    def pieces(tensor: Any) -> Pieces:
        step = ROWS if tensor.data.ndim > 1 else len(tensor.data)
        for first in range(0, len(tensor.data), step):
            yield dequantize(tensor.data[first : first + step], tensor.tensor_type)

    tensors = {
        hf_name(t.name): ([int(n) for n in reversed(t.shape)], partial(pieces, t)) for t in reader.tensors
    }
    print(f"unpacking {len(tensors)} tensors", flush=True)
    write_weights(folder / "model.safetensors", tensors)
    vocabulary = tensors["model.embed_tokens.weight"][0][0]
    fields = config_fields(
        lambda key: reader.fields[key].contents(), vocabulary, "lm_head.weight" not in tensors
    )
    write_texts(gguf_path, folder, fields)


def write_texts(gguf_path: Path, folder: Path, fields: dict[str, Any]) -> None:
    """Write configuration, generation settings and tokenizer files."""
    from transformers import AutoTokenizer, GenerationConfig, Qwen2Config

    print("writing configuration and tokenizer", flush=True)
    config = Qwen2Config(**fields, architectures=["Qwen2ForCausalLM"], dtype="bfloat16")
    config.save_pretrained(folder)
    ends = [fields["eos_token_id"], fields["bos_token_id"]]
    GenerationConfig(eos_token_id=ends).save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(gguf_path.parent, gguf_file=gguf_path.name)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
