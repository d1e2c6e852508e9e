"""Putting the engine together from its settings: target, context, template, drafters, scheduler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from homespec.engine.drafters.model import ModelDrafter
from homespec.engine.drafters.pair import mismatch
from homespec.engine.drafters.roster import Roster
from homespec.engine.grammar import GrammarCompiler
from homespec.engine.llama.context import Context, ContextParams
from homespec.engine.llama.guidance import GuidanceVocab
from homespec.engine.llama.library import library
from homespec.engine.llama.model import Model
from homespec.engine.llama.vocab import Vocab
from homespec.engine.prompt import PromptReader
from homespec.engine.sampling.coupled import CoupledSampler
from homespec.engine.sampling.rejection import RejectionSampler
from homespec.engine.sampling.sampler import Sampler
from homespec.engine.scheduler import Scheduler
from homespec.engine.sequence import Sequence
from homespec.engine.target import open_target
from homespec.engine.template import ChatTemplate
from homespec.errors import DrafterError, ModelError, ModelUnsupported, RequestError
from homespec.frames import EngineSettings, Frame, Generate, Happened, Loading, Sampling
from homespec.status import ModelStatus

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

    @property
    def vocab(self) -> Vocab:
        return self.context.model.vocab

    def sequence(self, request: Generate) -> Sequence:
        """A request made ready for the scheduler. Raises RequestError."""
        for token_id in request.sampling.logit_bias:
            if not 0 <= token_id < self.vocab.n_vocab:
                raise RequestError(
                    f"logit_bias names token {token_id}; the vocabulary has {self.vocab.n_vocab}", param="logit_bias"
                )
        grammar = self.grammars.compile(request.constraint) if request.constraint else None
        prompt_ids = self.prompts.read(request)
        sampler = make_sampler(request.sampling, request.speculation.acceptance or self.acceptance)
        sequence = Sequence(request, prompt_ids, n_ctx=self.context.n_ctx, sampler=sampler, grammar=grammar)
        if request.echo:
            sequence.text.begin(self.vocab.detokenize(prompt_ids))
        return sequence


def make_sampler(sampling: Sampling, acceptance: str) -> Sampler:
    """Without temperature there is nothing to draw, so nothing to reject."""
    if acceptance == "rejection" and sampling.temperature > 0:
        return RejectionSampler(sampling)
    return CoupledSampler(sampling)


def build_engine(settings: EngineSettings, *, send: Send, load: Callable[[], None]) -> Engine:
    """Load the target and everything around it; `load` starts loading the draft model. Raises ModelError."""
    path = Path(settings.model_path)
    model = Model(
        path,
        n_gpu_layers=settings.n_gpu_layers,
        mmap=settings.mmap,
        progress=lambda progress: send(Loading(progress, f"loading {path.name}")),
    )
    if model.has_encoder:
        raise ModelUnsupported(f"{path} is an encoder-decoder model; homespec serves decoder-only models")
    template = _template(model)
    context, exactness = open_target(settings, model)
    roster = Roster(
        settings.drafter_mode,
        draft_path=settings.draft_path,
        load=load,
        announce=lambda text: send(Happened("drafter", text)),
        quarantined=settings.quarantined,
    )
    scheduler = Scheduler(
        context,
        roster,
        num_running=settings.slots,
        prefill_chunk=settings.prefill_chunk,
        max_draft_tokens=settings.max_draft_tokens,
        send=send,
        exactness=exactness,
    )
    prompts = PromptReader(model.vocab, template, n_ctx=context.n_ctx)
    grammars = GrammarCompiler(GuidanceVocab(model.vocab))
    return Engine(
        context, roster, scheduler, prompts, grammars, _status(settings, context, template), settings.acceptance
    )


def build_drafter(settings: EngineSettings, target: Context) -> ModelDrafter:
    """Load the draft model of the settings. Raises DrafterError with the reason it cannot be used."""
    assert settings.draft_path is not None
    try:
        model = Model(Path(settings.draft_path), n_gpu_layers=settings.n_gpu_layers, mmap=settings.mmap)
    except ModelError as error:
        raise DrafterError(str(error)) from error
    try:
        return _draft_with(model, target, settings)
    except BaseException:
        model.close()
        raise


def _draft_with(model: Model, target: Context, settings: EngineSettings) -> ModelDrafter:
    if reason := mismatch(target.model.vocab, model.vocab):
        raise DrafterError(f"does not match the target: {reason}. Use a draft model of the target's family")
    if model.is_recurrent:
        raise DrafterError(f"architecture {model.architecture!r} cannot take tokens back, which drafting needs")
    params = ContextParams(
        n_ctx=min(target.n_ctx, max(model.n_ctx_train, 256)),
        n_seq_max=target.params.n_seq_max,
        n_outputs_max=settings.slots,
        n_batch=target.params.n_batch,
        n_threads=target.params.n_threads,
        kv_type=target.params.kv_type,
        flash_attention=target.params.flash_attention,
    )
    try:
        context = Context(model, params)
    except ModelError as error:
        raise DrafterError(str(error)) from error
    return ModelDrafter(context, target.model.vocab, chunk=settings.prefill_chunk)


def _template(model: Model) -> ChatTemplate | None:
    source = model.chat_template
    if source is None:
        return None
    vocab = model.vocab
    bos, eos = (vocab.detokenize([token]) if token is not None else "" for token in (vocab.bos, vocab.eos))
    return ChatTemplate(source, bos=bos, eos=eos)


def _status(settings: EngineSettings, context: Context, template: ChatTemplate | None) -> ModelStatus:
    model = context.model
    return ModelStatus(
        id=settings.model_id,
        path=settings.model_path,
        description=model.description,
        architecture=model.architecture,
        num_params=model.num_params,
        size_bytes=model.size_bytes,
        n_vocab=model.vocab.n_vocab,
        n_layer=model.n_layer,
        n_ctx=context.n_ctx,
        n_ctx_train=model.n_ctx_train,
        slots=settings.slots,
        kv_type=context.params.kv_type,
        flash_attention=context.flash_attention,
        threads=context.params.n_threads,
        devices=(*(library().offload_devices() if settings.n_gpu_layers else ()), "CPU"),
        chat_template="the model file" if template else None,
    )
