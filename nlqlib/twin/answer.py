"""What the twin says to one request, and how a request is refused."""

from dataclasses import dataclass

from nlqlib import tokens
from nlqlib.records import Json
from nlqlib.twin.recordings import Recording

HINT = "ask a real engine (`--target local`), or record the question sets on it (`make record`)"


@dataclass(frozen=True)
class Answer:
    """The words of one completion and how many tokens they are."""

    text: str
    finish_reason: str
    output_tokens: int
    token_ids: tuple[int, ...] | None = None
    """`None`: the number of tokens was drawn, so nobody knows which they are."""
    logprobs: tuple[Json, ...] | None = None

    def usage(self, prompt_tokens: int) -> Json:
        """vLLM's `usage` object."""
        return {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": self.output_tokens,
            "total_tokens": prompt_tokens + self.output_tokens,
        }


class Refused(Exception):
    """A request the twin answers with an HTTP error."""

    def __init__(self, status: int, message: str, kind: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.kind, self.param = status, kind, param

    def body(self) -> Json:
        """vLLM's error object."""
        detail = {"message": str(self), "type": self.kind, "param": self.param, "code": self.status}
        return {"error": detail}


def cut(recording: Recording, max_tokens: int) -> Answer:
    """`recording` as it would have come out under `max_tokens`. Raises `Refused` (422) where nobody knows."""
    ids = recording.token_ids
    if recording.finish_reason == "length" and max_tokens > len(ids):
        raise Refused(422, f"the recorded answer was itself cut at {len(ids)} tokens; {HINT}", "recording")
    if len(ids) <= max_tokens:
        return Answer(recording.text, recording.finish_reason, len(ids), ids, recording.logprobs)
    ids = ids[:max_tokens]
    logprobs = recording.logprobs[:max_tokens] if recording.logprobs is not None else None
    return Answer(tokens.decode(ids), "length", len(ids), ids, logprobs)


def pieces(answer: Answer) -> list[str]:
    """The text that each output token adds; together they are the whole text.

    Where the number of tokens was drawn, the text is spread evenly over them.
    """
    if answer.token_ids is None:
        n, size = answer.output_tokens, len(answer.text)
        return [answer.text[i * size // n : (i + 1) * size // n] for i in range(n)]
    out, shown = [], ""
    for i in range(answer.output_tokens):
        last = i == answer.output_tokens - 1
        text = answer.text if last else tokens.decode(answer.token_ids[: i + 1])
        text = text if last or not text.endswith("�") else shown
        piece = text[len(shown) :] if text.startswith(shown) else ""
        out.append(piece)
        shown += piece
    return out
