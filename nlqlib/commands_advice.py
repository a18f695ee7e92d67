"""What to do about a question that got no usable answer, where the error itself does not say it."""

from collections.abc import Mapping

from nlqlib.records import Outcome

LOG = "see the server's log"
REWORDED = "put the question in other words; the condition cues needs no valid answer where its rules suffice"
ADVICE: Mapping[Outcome, str] = {
    "bad_response": "does the address end in the API's path, usually /v1?",
    "http_5xx": LOG,
    "http_503": LOG,
    "http_429": "ask later, or fewer at a time",
    "mid_stream_error": LOG,
    "timeout": "set TIMEOUT_S to more seconds",
    "length": REWORDED,
    "empty": REWORDED,
    "bad_json": REWORDED,
    "schema_violation": REWORDED,
    "constraint_not_applied": "does the server know the field structured_outputs?",
}
"""By outcome; the others say it in their own text."""


def advised(reason: str, outcome: Outcome) -> str:
    """`reason` with what to do about `outcome`, where there is more to say."""
    return f"{reason} ({ADVICE[outcome]})" if outcome in ADVICE else reason
