"""`serve twin`: the modelled endpoint on a socket, in real time."""

from dataclasses import asdict

from nlqlib.serving.app_server import listen, serve_app
from nlqlib.serving.twin_target import TwinSettings, open_twin, twin_app


def twin(port: int | None, settings: TwinSettings) -> int:
    """Serve the twin until Ctrl-C, after one line that says what is modelled and what is replayed."""
    target = open_twin(settings)
    app = twin_app(settings)
    listener = listen(port)
    drawn = f"lengths drawn ({settings.output_tokens:g} ± {settings.output_sd:g} tokens)"
    replayed = f"words replayed, recordings of {target.speaker}"
    words = replayed if settings.words == "recordings" else drawn
    print(f"twin: times modelled ({target.models}); {words}", flush=True)
    return serve_app(app, listener, lambda root: print(f"twin: {root}/v1; Ctrl-C ends it", flush=True))


def twin_settings(**given: object) -> TwinSettings:
    """Settings from the command line's options; what was not given keeps its default."""
    default = asdict(TwinSettings())
    chosen = {k: v for k, v in given.items() if v is not None and v != default.get(k)}
    return TwinSettings().changed(chosen)
