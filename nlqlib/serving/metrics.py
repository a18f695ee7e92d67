"""Reads `/metrics` of every engine of an endpoint: whole at a window's edges, three gauges through the run.

A sample asks for its few names alone (`?name[]=…`), which costs a tenth of a whole page or less. vLLM 0.32
ignores the filter at `/metrics` and honours it at `/metrics/`, where prometheus_client itself answers; other
servers know it at neither. So the first samples try both, and what was found to filter is kept; where
nothing does, the whole page is read and only the wanted lines of it are looked at.

What cannot be read is missing, with a reason that holds neither host nor key. The endpoint's key goes along
to the endpoint's own origin, and elsewhere over TLS only.
"""

import asyncio
import math
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any

import httpx2

from nlqlib.analysis.window import Page, Sample, Scrape
from nlqlib.metric_names import QUANTITIES, SAMPLED_NAMES
from nlqlib.serving.endpoint import Endpoint, EndpointError, parse_address
from nlqlib.serving.inprocess import App, get
from nlqlib.serving.target import Connection

PATIENCE_S = 10.0
"""Limit of one read in seconds of the running loop; a page of vLLM takes 0.01."""
ACCEPT = "text/plain;version=0.0.4"
"""The older text form, which every exporter speaks and our parser reads."""

SAMPLE_NAMES = {key: QUANTITIES[key].samples for key in ("running", "waiting", "kv_usage")}

Series = Mapping[str, Sequence[float]]
"""Values of the wanted samples, by their names."""


def metrics_reader(there: Connection) -> "MetricsReader":
    """The reader of a connected target's metrics; it belongs to the loop that is running."""
    return MetricsReader(there.metrics_urls, app=there.app, endpoint=there.endpoint)


class MetricsReader:
    """Reads the metrics pages at `urls`; belongs to the loop in which it is first used."""

    def __init__(
        self,
        urls: Iterable[str],
        app: App | None = None,
        endpoint: Endpoint | None = None,
        ceiling: float = PATIENCE_S,
        setting: str = "METRICS_URL",
    ) -> None:
        """`ceiling`: seconds that one read may take; `setting`: what messages say to set.

        Raises `EndpointError` for a URL that is none.
        """
        self._setting = setting
        self.urls = tuple(_checked(url.strip(), setting) for url in urls)
        self._endpoint = endpoint
        self._app = app
        self._ceiling = ceiling
        self._ways = {url: list(_ways(url)) for url in self.urls}
        self._filtering: set[str] = set()
        """Pages known to honour the filter by the way in use."""
        self._client: httpx2.AsyncClient | None = None

    async def scrape(self) -> Scrape:
        """Every page, whole; a page that cannot be read says why."""
        at_s = asyncio.get_running_loop().time()
        return Scrape(at_s, tuple(await asyncio.gather(*(self._page(url) for url in self.urls))))

    async def sample(self) -> Sample:
        """Requests running and waiting now, over all engines and URLs; missing where one does not say."""
        at_s = asyncio.get_running_loop().time()
        if not self.urls:
            return Sample(at_s, None, None, f"no metrics URL is known: set {self._setting}")
        found = await _all([self._filtered(url) for url in self.urls])
        problems = list(dict.fromkeys(why for why in found if isinstance(why, str)))
        series = [told for told in found if not isinstance(told, str)]
        if problems:
            return Sample(at_s, None, None, "; ".join(problems))
        running, waiting = _sum(series, "running"), _sum(series, "waiting")
        absent = [name for name, value in (("running", running), ("waiting", waiting)) if value is None]
        problem = f"the page does not say how many requests are {' and '.join(absent)}" if absent else None
        return Sample(at_s, running, waiting, problem, _mean(series, "kv_usage"))

    async def aclose(self) -> None:
        """Close every connection."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _page(self, url: str) -> Page:
        text = await self._get(httpx2.URL(url), self._headers(url))
        return Page(None, text.reason) if isinstance(text, _Problem) else Page(text)

    async def _filtered(self, url: str) -> Series | str:
        """Wanted values of one page, by the cheapest way that works, or why there are none."""
        ways = self._ways[url]
        text = await self._get(ways[0], self._headers(url))
        if isinstance(text, _Problem) or not (found := scan(text, SAMPLED_NAMES)):
            if len(ways) == 1:
                return text.reason if isinstance(text, _Problem) else {}
            if not (isinstance(text, _Problem) and text.passing):
                ways.pop(0)  # this way leads nowhere
                return await self._filtered(url)
            return text.reason
        if len(ways) > 1 and url not in self._filtering:
            if is_filtered(text):
                self._filtering.add(url)
            else:
                ways.pop(0)  # answered, but with the whole page: the next sample tries another way
        return found

    def _headers(self, url: str) -> dict[str, str]:
        """The endpoint's own headers and key, where they may go."""
        told = {"accept": ACCEPT, "accept-encoding": "identity"}  # packing a page costs its engine time
        endpoint = self._endpoint
        if endpoint is None or not _may_know_the_key(url, endpoint):
            return told
        authorization = endpoint.authorization()
        return told | dict(endpoint.headers) | ({"authorization": authorization} if authorization else {})

    async def _get(self, url: httpx2.URL, headers: Mapping[str, str]) -> "str | _Problem":
        try:
            async with asyncio.timeout(self._ceiling):
                status, content_type, text = await self._fetch(url, headers)
        except TimeoutError:
            return _Problem(f"the metrics page did not come within {self._ceiling:g} s", passing=True)
        except httpx2.HTTPError as failure:
            return _Problem(f"the metrics page cannot be reached ({type(failure).__name__})", passing=True)
        if status != 200:
            return _refused(status, "authorization" in headers, self._setting)
        if "html" in content_type or text.lstrip()[:1] == "<":
            return _Problem(f"an HTML page came instead of metrics: is {self._setting} a page of metrics?")
        return text

    async def _fetch(self, url: httpx2.URL, headers: Mapping[str, str]) -> tuple[int, str, str]:
        """Status, content type and text; in this process without the cost of an HTTP client."""
        if self._app is not None:
            status, told, body = await get(self._app, str(url), headers)
            return status, told.get("content-type", ""), body.decode("utf-8", "replace")
        response = await self._opened().get(url, headers=headers)
        return response.status_code, response.headers.get("content-type", ""), response.text

    def _opened(self) -> httpx2.AsyncClient:
        if self._client is None:
            self._client = httpx2.AsyncClient(
                transport=self._sockets(), trust_env=False, follow_redirects=False, timeout=None
            )
        return self._client

    def _sockets(self) -> httpx2.AsyncHTTPTransport:
        """Straight to the engines: no proxy, the endpoint's own certificate authority."""
        context = None if self._endpoint is None else self._endpoint.tls_context()
        return httpx2.AsyncHTTPTransport(verify=context if context is not None else True, trust_env=False)


async def _all(reads: Sequence[Coroutine[Any, Any, Series | str]]) -> list[Series | str]:
    """Every read at the same time; a single one without a task of its own."""
    return [await reads[0]] if len(reads) == 1 else list(await asyncio.gather(*reads))


class _Problem:
    """Why a page could not be read; `passing` when the next try may well succeed."""

    def __init__(self, reason: str, passing: bool = False) -> None:
        self.reason, self.passing = reason, passing


def _refused(status: int, with_key: bool, setting: str) -> _Problem:
    if status in (401, 403):
        remedy = "the key is refused" if with_key else "no key was sent: set API_KEY_ENV, and use https"
        return _Problem(f"the metrics page is closed (HTTP {status}): {remedy}")
    if status == 404:
        return _Problem(f"there is no metrics page here (HTTP 404): set {setting}")
    if 300 <= status < 400:
        return _Problem(f"the metrics page is elsewhere (HTTP {status}): set {setting} to where it is")
    return _Problem(f"the metrics page answers HTTP {status}", passing=status in (429, 502, 503, 504))


def _checked(url: str, setting: str) -> str:
    """`url`, when a metrics page can be there; its query may hold anything."""
    try:
        parse_address(url.partition("?")[0])
    except EndpointError as problem:
        raise EndpointError(f"{setting} cannot be used: {problem}") from None
    return url


def _may_know_the_key(url: str, endpoint: Endpoint) -> bool:
    there, home = parse_address(url.partition("?")[0]), endpoint.address
    same_origin = (there.scheme, there.host, there.port) == (home.scheme, home.host, home.port)
    return same_origin or there.tls


def _ways(url: str) -> Iterable[httpx2.URL]:
    """Addresses that may answer with the wanted samples, the cheapest first, the whole page last."""
    path, _, query = url.partition("?")
    names = "&".join(f"name[]={name}" for name in SAMPLED_NAMES)
    wanted = f"{query}&{names}" if query else names
    yield httpx2.URL(f"{path}?{wanted}")
    if not path.endswith("/"):
        yield httpx2.URL(f"{path}/?{wanted}")
    yield httpx2.URL(url)


def scan(text: str, names: Iterable[str]) -> dict[str, list[float]]:
    """Values of the samples called exactly so, without reading the rest of the page.

    A value that is no number, or no finite one, stands as NaN.
    """
    found: dict[str, list[float]] = {}
    wanted = frozenset(names)
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name = line.partition("{")[0].partition(" ")[0]
        if name in wanted:
            rest = line[line.rfind("}") + 1 :] if line.startswith("{", len(name)) else line[len(name) :]
            found.setdefault(name, []).append(_number(rest.split()[:1]))
    return found


def _number(words: Sequence[str]) -> float:
    try:
        return float(words[0])
    except (IndexError, ValueError):
        return math.nan


def is_filtered(text: str) -> bool:
    """Whether a page holds nothing but what `sample` asks for."""
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    return all(line.startswith(SAMPLED_NAMES) for line in lines)


def _sum(pages: Iterable[Series], key: str) -> float | None:
    """Over every page and engine; `None` where a page lacks the quantity, or a value is no number."""
    values = _values(pages, key)
    return None if values is None else sum(values)


def _mean(pages: Iterable[Series], key: str) -> float | None:
    values = _values(pages, key)
    return None if not values else sum(values) / len(values)


def _values(pages: Iterable[Series], key: str) -> list[float] | None:
    names = SAMPLE_NAMES[key]
    found = [next((page[name] for name in names if name in page), [math.nan]) for page in pages]
    values = [value for page in found for value in page]
    return values if all(map(math.isfinite, values)) else None
