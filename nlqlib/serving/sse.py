"""Server-sent events, decoded as bytes arrive.

Only `data` matters to chat completions; `event`, `id`, `retry` and comments are read over. Lines are decoded
when they are whole, so a character or a line end may be split between two pieces.
"""

import re

LINE_END = re.compile(rb"\r\n|\n|\r")
BOM = b"\xef\xbb\xbf"
DONE = "[DONE]"


class EventDecoder:
    """Turns pieces of an event stream into the payloads of its finished events."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self._after_cr = False
        self._first = True

    def feed(self, piece: bytes) -> list[str]:
        """Payloads of the events that `piece` completes, in order."""
        if not piece:
            return []
        if self._idle and piece.startswith(b"data: ") and piece.endswith(b"\n\n"):
            inner = piece[6:-2]
            if b"\n" not in inner and b"\r" not in inner:  # most pieces are one event, from end to end
                self._first = False
                return [inner.decode(errors="replace")]
        ended_in_cr, self._after_cr = self._after_cr, piece.endswith(b"\r")
        if ended_in_cr and piece.startswith(b"\n"):  # the second half of a CRLF
            piece = piece[1:]
        *lines, self._rest = LINE_END.split(self._rest + piece)
        events: list[str] = []
        for line in lines:
            self._take(line, events)
        return events

    @property
    def _idle(self) -> bool:
        return not (self._rest or self._data or self._after_cr)

    def _take(self, line: bytes, events: list[str]) -> None:
        if self._first:
            self._first, line = False, line.removeprefix(BOM)
        if not line:
            if self._data:
                events.append(b"\n".join(self._data).decode(errors="replace"))
                self._data.clear()
        elif line.startswith(b"data:"):
            self._data.append(line[6:] if line[5:6] == b" " else line[5:])
        elif line == b"data":
            self._data.append(b"")
