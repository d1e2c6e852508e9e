"""Putting the engine together from its settings: target, context, template, drafters, scheduler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from homespec.chat.answer_grammar import answer_grammar
from homespec.chat.tool_formats import FORMATS
from homespec.chat.tool_grammar import tool_grammar
from homespec.engine.chat_format import examine, read_source
from homespec.engine.costs import Costs
from homespec.engine.draft_file import head_of, kind_of, load_drafter, taps_for
from homespec.engine.drafters.drafter import Drafter
from homespec.engine.drafters.journal import Journal
from homespec.engine.drafters.kind import DRAFT
from homespec.engine.drafters.past import PastOutputs
from homespec.engine.drafters.roster import Roster
from homespec.engine.embedding.embedder import Embedder
from homespec.engine.embedding.kind import embedding_kind
from homespec.engine.embedding.params import embedding_params
from homespec.engine.embedding.reader import EmbeddingReader
from homespec.engine.grammar import Grammar, GrammarCompiler
from homespec.engine.llama.context import Context
from homespec.engine.llama.guidance import GuidanceVocab
from homespec.engine.llama.model import Model
from homespec.engine.llama.vocab import Vocab
from homespec.engine.model_status import model_status
from homespec.engine.prompt import Prompt, PromptReader
from homespec.engine.sampling.coupled import CoupledSampler
from homespec.engine.sampling.rejection import RejectionSampler
from homespec.engine.sampling.sampler import Sampler
from homespec.engine.scheduler import Scheduler
from homespec.engine.sequence import Sequence
from homespec.engine.target import device_readings, load_target, open_target
from homespec.engine.template import ChatTemplate
from homespec.engine.tool_schema import usable
from homespec.errors import ModelUnsupported, RequestError
from homespec.fingerprint import fingerprint
from homespec.frames import (
    ChatPrompt,
    Constraint,
    EngineSettings,
    Frame,
    Generate,
    Happened,
    Noted,
    Sampling,
    TextPrompt,
)
from homespec.status import ChatFormat, ModelStatus

Send = Callable[[Frame], None]


@dataclass(frozen=True, slots=True)
class Engine:
    """Everything that is loaded."""

    context: Context
    roster: Roster
    scheduler: Scheduler
    prompts: PromptReader
    grammars: GrammarCompiler
    status: ModelStatus
    acceptance: str
    send: Send
    texts: EmbeddingReader | None = None
    """None where the model is not loaded to embed."""

    @property
    def vocab(self) -> Vocab:
        return self.context.model.vocab

    def sequence(self, request: Generate) -> Sequence:
        """A request made ready for the scheduler. Sends Noted when something is not done as asked. Raises
        RequestError.
        """
        for token_id in request.sampling.logit_bias:
            if not 0 <= token_id < self.vocab.n_vocab:
                raise RequestError(
                    f"logit_bias names token {token_id}; the vocabulary has {self.vocab.n_vocab}", param="logit_bias"
                )
        prompt = self.prompts.read(request)
        markers = self._markers(request.prompt)
        sequence = Sequence(
            request,
            prompt.token_ids,
            n_ctx=self.context.n_ctx,
            sampler=make_sampler(request.sampling, request.speculation.acceptance or self.acceptance),
            grammar=self._grammar(request, prompt, markers),
            spelled_out={token: text.encode() for text, token in markers.items()},
        )
        if request.echo:
            sequence.text.begin(self._echo(request, prompt))
        elif prompt.in_reasoning and isinstance(request.prompt, ChatPrompt) and request.prompt.reasoning:
            sequence.text.begin(request.prompt.reasoning[0])  # a reader of the answer alone must know where it is
        return sequence

    def _echo(self, request: Generate, prompt: Prompt) -> str:
        """What was sent: tokenizers put BOS in front, or a space."""
        sent = request.prompt
        return sent.text if isinstance(sent, TextPrompt) else self.vocab.detokenize(prompt.token_ids)

    def _markers(self, prompt: object) -> dict[str, int]:
        """Those that are one token each in this vocabulary."""
        texts = prompt.markers if isinstance(prompt, ChatPrompt) else ()
        return {text: token for text in texts if (token := self.vocab.marker(text)) is not None}

    def _grammar(self, request: Generate, prompt: Prompt, markers: dict[str, int]) -> Grammar | None:
        if request.constraint is None:
            calls = self._calls(request, prompt, markers)
            return self.grammars.compile(calls) if calls else None
        chat = request.prompt
        if not isinstance(chat, ChatPrompt) or chat.reasoning is None or chat.answers_at_once:
            return self.grammars.compile(request.constraint)
        after_thinking = partial(
            answer_grammar, tokens=markers, reasoning=chat.reasoning, in_reasoning=prompt.in_reasoning
        )
        return self.grammars.compile(request.constraint, after_thinking)

    def _calls(self, request: Generate, prompt: Prompt, markers: dict[str, int]) -> Constraint | None:
        if request.tool_use is None or not isinstance(request.prompt, ChatPrompt):
            return None
        use, notices = usable(request.tool_use)
        if notices:
            self.send(Noted(request.request_id, notices))
        grammar = tool_grammar(
            use,
            FORMATS[use.tool_format],
            markers,
            reasoning=request.prompt.reasoning,
            in_reasoning=prompt.in_reasoning,
        )
        return Constraint("lark", grammar, "tools")


def make_sampler(sampling: Sampling, acceptance: str) -> Sampler:
    """Without temperature there is nothing to draw, so nothing to reject."""
    if acceptance == "rejection" and sampling.temperature > 0:
        return RejectionSampler(sampling)
    return CoupledSampler(sampling)


def build_engine(settings: EngineSettings, *, send: Send, load: Callable[[], None]) -> Engine:
    """Load the target and everything around it; `load` starts loading the draft model. Raises ModelError."""
    path = Path(settings.model_path)
    head = head_of(settings)
    # What lies in the target's file is loaded with it or not at all.
    reads = None if head is not None and head.is_in_target and DRAFT in settings.refused else head
    model = load_target(settings, send, load_mtp=reads is not None and reads.is_in_target)
    if model.has_encoder:
        raise ModelUnsupported(f"{path} is an encoder-decoder model; homespec serves decoder-only models")
    template, chat = _template(settings, model)
    context, exactness = open_target(settings, model, taps_for(reads, model))
    roster = Roster(
        settings.drafter_mode,
        draft_path=settings.draft_path,
        draft_kind=kind_of(head),
        load=load,
        announce=lambda text: send(Happened("drafter", text)),
        quarantined=settings.quarantined,
        past=_past_outputs(settings, path),
        withdrawn=settings.withdrawn,
        refused=settings.refused,
    )
    kind = embedding_kind(path, settings.embeddings)
    embedder = Embedder(Context(model, embedding_params(settings, model, kind)), kind, send) if kind else None
    scheduler = Scheduler(
        context,
        roster,
        num_running=settings.slots,
        prefill_chunk=settings.prefill_chunk,
        max_draft_tokens=settings.max_draft_tokens,
        send=send,
        exactness=exactness,
        costs=Costs(context, roster, least_rows=2 if exactness.pad_single else 1) if settings.controller else None,
        embedder=embedder,
        devices=device_readings(settings),
    )
    prompts = PromptReader(model.vocab, template, n_ctx=context.n_ctx)
    grammars = GrammarCompiler(GuidanceVocab(model.vocab))
    return Engine(
        context,
        roster,
        scheduler,
        prompts,
        grammars,
        model_status(settings, context, chat=chat, embedding=embedder.status if embedder else None),
        settings.acceptance,
        send,
        embedder.reader() if embedder else None,
    )


def build_drafter(settings: EngineSettings, target: Context, wanted: Callable[[], bool] = lambda: True) -> Drafter:
    """The drafter that the draft file of the settings gives.

    Raises DrafterError with the reason it cannot be used, also when `wanted` says no while it loads.
    """
    return load_drafter(settings, target, wanted)()


def _past_outputs(settings: EngineSettings, model_path: Path) -> PastOutputs | None:
    """None unless they are asked for: answers are private."""
    if not settings.past_outputs_bytes:
        return None
    path = settings.past_outputs_path
    journal = Journal(Path(path), fingerprint(model_path)) if path is not None else None
    return PastOutputs(settings.past_outputs_bytes, journal)


def _template(settings: EngineSettings, model: Model) -> tuple[ChatTemplate | None, ChatFormat | None]:
    found = read_source(settings.chat_template, model.chat_template)
    if found is None:
        return None, None
    source, origin = found
    vocab = model.vocab
    bos, eos = (vocab.detokenize([token]) if token is not None else "" for token in (vocab.bos, vocab.eos))
    template = ChatTemplate(source, bos=bos, eos=eos)
    return template, examine(template, origin, has_token=lambda text: vocab.marker(text) is not None)
