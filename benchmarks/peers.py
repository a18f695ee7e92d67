"""Other load generators: vLLM's own in the engine's environment, guidellm in a scratch one.

`python -m benchmarks.peers` installs guidellm into the cache. Neither is a dependency of the suite.
"""

import os
import subprocess
import sys
import venv
from pathlib import Path

from benchmarks.clients import Tool
from nlqlib import paths

GUIDELLM = ("torch==2.13.0+cpu", "guidellm==0.8.0")
"""It asks for a torch that it does not use here; the CPU build spares three gigabytes (`TORCH_INDEX`)."""


SERVE = """
import argparse, sys
from vllm.benchmarks.serve import add_cli_args, main
parser = argparse.ArgumentParser()
add_cli_args(parser)
main(parser.parse_args(sys.argv[1:]))
"""
"""What `vllm bench serve` does, without the console script, which the CPU build breaks."""


def vllm_bench(python: Path, tokenizer: Path) -> Tool:
    """`vllm bench serve` of the engine's environment, with the served model's tokenizer."""

    def command(root: str, concurrency: int, requests: int, stream: bool) -> list[str]:
        del stream  # it always streams
        return [
            *(str(python), "-c", SERVE),
            *("--backend", "openai-chat", "--base-url", root, "--endpoint", "/v1/chat/completions"),
            *("--model", "fixed", "--tokenizer", str(tokenizer), "--dataset-name", "random"),
            *("--random-input-len", "24", "--random-output-len", "8", "--num-prompts", str(requests)),
            *("--max-concurrency", str(concurrency), "--disable-tqdm", "--ready-check-timeout-sec", "0"),
        ]

    return Tool("vllm bench serve", command)


def guidellm(python: Path, tokenizer: Path) -> Tool:
    """`guidellm run` at a fixed concurrency."""

    def command(root: str, concurrency: int, requests: int, stream: bool) -> list[str]:
        del stream
        return [
            *(str(python), "-m", "guidellm", "run"),
            *("--backend", f"kind=openai_http,target={root},model=fixed"),
            *("--profile", f"kind=concurrent,streams={concurrency}"),
            *("--constraint", f"kind=max_requests,count={requests}"),
            *("--tokenizer", f"kind=huggingface_auto,model={tokenizer}"),
            *("--data", "kind=synthetic_text,prompt_tokens=24,output_tokens=8"),
            "--disable-console",
        ]

    return Tool("guidellm", command)


def guidellm_python() -> Path:
    """Where guidellm's own Python is, or would be."""
    return paths.cache_dir() / "bench" / "guidellm" / "bin" / "python"


def install_guidellm() -> Path:
    """Make its environment, once."""
    python = guidellm_python()
    if not python.exists():
        venv.create(python.parent.parent, with_pip=True)
        index = os.environ.get("TORCH_INDEX")
        more = ["--extra-index-url", index] if index else []
        subprocess.run([python, "-m", "pip", "install", "-q", *GUIDELLM, *more], check=True)
    return python


if __name__ == "__main__":
    print(install_guidellm())
    sys.exit(0)
