"""The engine process: `python -m homespec.engine FD`, where FD is one end of the daemon's socket pair.

Main thread: reads frames, renders templates, tokenises. Scheduler thread: loads the target, then runs the scheduler;
the only one that decodes. Heartbeat thread: reports the scheduler's progress. Loader thread, now and then: a drafter.
"""

from __future__ import annotations

import gc
import logging
import os
import socket
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

from homespec.engine.build import Engine, build_engine
from homespec.engine.crowd import CrowdWatch
from homespec.engine.draft_file import OpenDrafter, load_drafter
from homespec.engine.embedding.embedder import EmbeddingJob
from homespec.engine.embedding.engine import EmbeddingEngine, build_embedding_engine
from homespec.engine.embedding.kind import embedding_kind
from homespec.engine.embedding.reader import not_loaded_to_embed
from homespec.engine.neighbour import step_back
from homespec.errors import HomespecError, ModelError, RequestError
from homespec.frames import (
    Admit,
    Cancel,
    Detokenize,
    Embed,
    EngineSettings,
    Frame,
    Generate,
    Happened,
    Heartbeat,
    LoadFailed,
    Measured,
    Noted,
    Readmit,
    Ready,
    Refused,
    ReloadDrafter,
    SetDrafter,
    Snapshot,
    Start,
    Stop,
    Text,
    Tokenize,
    Tokens,
    Withdraw,
)
from homespec.link import Link
from homespec.parent import die_with_parent
from homespec.steady import Steady

HEARTBEAT_INTERVAL_S = 0.5
_OOM_SCORE_ADJ = 300
"""Above the daemon's: when memory runs out, the engine goes and the daemon brings it back."""

logger = logging.getLogger("homespec.engine")


class EngineProcess:
    """The process seen from inside."""

    def __init__(self, link: Link, settings: EngineSettings) -> None:
        self._link = link
        self._settings = settings
        self._engine: Engine | EmbeddingEngine | None = None
        self._wants_drafter = False
        self._crowd: CrowdWatch | None = None
        self._steady = Steady(logger, "looking at other work on the box")
        self._thread = threading.Thread(target=self._serve, name="scheduler", daemon=True)

    def run(self) -> None:
        """Until the daemon says stop or is gone."""
        self._thread.start()
        threading.Thread(target=self._beat_for_ever, name="heartbeat", daemon=True).start()
        while (frame := self._link.receive()) is not None and not isinstance(frame, Stop):
            self._handle(frame)

    def _handle(self, frame: Frame) -> None:
        engine = self._engine
        if engine is None:
            return  # the daemon sends requests after Ready only
        match frame:
            case Generate():
                self._answer(frame.request_id, partial(self._generate, engine, frame))
            case Embed():
                self._answer(frame.request_id, partial(self._embed, engine, frame))
            case Cancel(request_id):
                engine.scheduler.post(lambda: engine.scheduler.cancel(request_id))
            case Withdraw():
                engine.scheduler.post_urgent(lambda: engine.scheduler.obey(frame))
            case Admit():
                self._settings = frame.applied_to(self._settings)  # the loader, which comes after, loads by these
                engine.scheduler.post(lambda: engine.scheduler.obey(frame))
            case SetDrafter() | Readmit() | ReloadDrafter():
                engine.scheduler.post(lambda: engine.scheduler.obey(frame))
            case Tokenize():
                self._answer(frame.request_id, partial(self._tokenize, engine, frame))
            case Detokenize():
                self._answer(frame.request_id, partial(self._detokenize, engine, frame))

    def _answer(self, request_id: str, work: partial[None]) -> None:
        """A request's own fault, or our bug on its way in, ends that request only."""
        try:
            work()
        except RequestError as error:
            self._link.send(Refused(request_id, error.info))
        except Exception as error:
            logger.exception("request %s failed before it was scheduled", request_id)
            info = RequestError(f"internal error: {type(error).__name__}", status=500, type="server_error").info
            self._link.send(Refused(request_id, info))

    def _generate(self, engine: Engine | EmbeddingEngine, request: Generate) -> None:
        if isinstance(engine, EmbeddingEngine):
            engine.refuse()
        sequence = engine.sequence(request)
        engine.scheduler.post(lambda: engine.scheduler.submit(sequence))

    def _tokenize(self, engine: Engine | EmbeddingEngine, request: Tokenize) -> None:
        token_ids = engine.vocab.tokenize(request.text, add_special=False, parse_special=request.special)
        self._link.send(Tokens(request.request_id, token_ids))

    def _detokenize(self, engine: Engine | EmbeddingEngine, request: Detokenize) -> None:
        for index, token_id in enumerate(request.token_ids):
            if not 0 <= token_id < engine.vocab.n_vocab:
                raise RequestError(
                    f"tokens[{index}] = {token_id} is outside the vocabulary of {engine.vocab.n_vocab}",
                    param=f"tokens[{index}]",
                )
        self._link.send(Text(request.request_id, engine.vocab.detokenize(request.token_ids)))

    def _embed(self, engine: Engine | EmbeddingEngine, request: Embed) -> None:
        if engine.texts is None:
            raise not_loaded_to_embed(engine.status.id)
        texts, notices = engine.texts.read(request)
        if notices:
            self._link.send(Noted(request.request_id, notices))
        job = EmbeddingJob(request.request_id, texts, request.dimensions)
        engine.scheduler.post(lambda: engine.scheduler.embed(job))

    def _serve(self) -> None:
        """The scheduler thread. Whatever ends it ends the process: the supervisor starts a fresh one."""
        try:
            engine = self._engine = self._build()
            if self._wants_drafter:
                self._load_drafter()
            # First, so that nobody sees a daemon that is ready and does not know its drafters.
            self._send(Snapshot(engine.scheduler.snapshot()))
            self._send(Ready(engine.status))
            verdict = engine.scheduler.exactness.verdict
            self._send(Measured(verdict.label, verdict.reason))
            gc.freeze()  # what is loaded stays: collections need not look at it between two tokens
            engine.scheduler.run()
        except ModelError as error:
            self._send(LoadFailed(type(error).__name__, str(error)))
            os._exit(int(error.exit_code))
        except BaseException:
            logger.exception("the engine's scheduler ended")
            os._exit(1)

    def _build(self) -> Engine | EmbeddingEngine:
        settings = self._settings
        kind = embedding_kind(Path(settings.model_path), settings.embeddings)
        if kind is not None and kind.embeds_only:
            return build_embedding_engine(settings, kind, send=self._send)
        return build_engine(settings, send=self._send, load=self._load_drafter)

    def _load_drafter(self) -> None:
        """Load the draft model beside the decode loop; as soon as there is a target to pair it with."""
        engine = self._engine
        if not isinstance(engine, Engine):
            self._wants_drafter = True
            return
        loader = threading.Thread(target=self._drafter_thread, args=(engine,), name="drafter-loader", daemon=True)
        try:
            loader.start()
        except RuntimeError as error:  # no memory for its stack
            reason = f"could not be loaded: {error}"
            roster = engine.roster
            engine.scheduler.post(lambda: roster.failed(roster.file_drafter, reason))

    def _drafter_thread(self, engine: Engine) -> None:
        roster, post = engine.roster, engine.scheduler.post
        was_unwanted = False

        def wanted() -> bool:
            nonlocal was_unwanted
            was_unwanted = was_unwanted or not roster.wants_draft
            return not was_unwanted

        try:
            open_drafter = load_drafter(self._settings, engine.context, wanted)
        except Exception as error:
            if was_unwanted:
                post(roster.given_up)
                return
            reason = _reason(error)
            post(lambda: roster.failed(roster.file_drafter, reason))
        else:
            post(lambda: self._use_drafter(engine, open_drafter))

    def _use_drafter(self, engine: Engine, open_drafter: OpenDrafter) -> None:
        """On the scheduler's thread: a head shares the target's context with it."""
        try:
            drafter = open_drafter()
        except Exception as error:
            engine.roster.failed(engine.roster.file_drafter, _reason(error))
        else:
            engine.roster.loaded(drafter)

    def _beat_for_ever(self) -> None:
        while True:
            time.sleep(HEARTBEAT_INTERVAL_S)
            self._beat()

    def _beat(self) -> None:
        """Once. Whatever else is looked at beside it, the daemon must not take a living engine for one that hangs."""
        engine = self._engine
        scheduler = engine.scheduler if engine else None
        self._send(Heartbeat(scheduler.progress if scheduler else 0, bool(scheduler and scheduler.busy)))
        if engine is not None:
            with self._steady.turn():
                self._crowd = self._crowd or CrowdWatch(self._settings, engine.context)
                if said := self._crowd.look(time.monotonic()):
                    self._send(Happened("engine", said))

    def _send(self, frame: Frame) -> None:
        try:
            self._link.send(frame)
        except OSError:
            os._exit(0)  # the daemon is gone


def main(arguments: list[str]) -> None:
    """Read the Start frame and serve. Exits when the other end of the socket closes."""
    die_with_parent()
    _offer_to_oom_killer()
    sock = socket.socket(fileno=int(arguments[0]))
    link = Link(sock)
    start = link.receive()
    if not isinstance(start, Start):
        os._exit(0)
    step_back(start.settings.nice)
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.DEBUG if start.settings.log_native else logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    EngineProcess(link, start.settings).run()
    # Skips the destructors of llama.cpp, which may run into a decode that is still going on in the scheduler thread.
    os._exit(0)


def _reason(error: Exception) -> str:
    """Why a draft file cannot be used, for people."""
    if isinstance(error, HomespecError):
        return str(error)
    logger.error("loading the draft file failed", exc_info=error)
    return f"could not be loaded: {error}"


def _offer_to_oom_killer() -> None:
    with suppress(OSError):
        path = Path("/proc/self/oom_score_adj")
        path.write_text(str(max(int(path.read_text()), _OOM_SCORE_ADJ)))
