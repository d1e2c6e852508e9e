"""POST /tokenize and /detokenize."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from homespec.frames import Detokenize, Text, Tokenize, Tokens
from homespec.server.body import JsonRoute
from homespec.server.document import BODY, ENGINE, answers
from homespec.server.question import ask
from homespec.server.services import ServicesDep
from homespec.wire.requests import DetokenizeRequest, TokenizeRequest
from homespec.wire.responses import request_id

router = APIRouter(route_class=JsonRoute)


@router.post("/tokenize", responses=answers(*BODY, *ENGINE))
async def tokenize(request: Request, body: TokenizeRequest, services: ServicesDep) -> dict[str, Any]:
    """Token ids of a text, without BOS."""
    answer, _ = await ask(request, services, Tokenize(request_id("tok"), body.content, body.parse_special))
    assert isinstance(answer, Tokens)
    return {"tokens": answer.token_ids}


@router.post("/detokenize", responses=answers(*BODY, *ENGINE))
async def detokenize(request: Request, body: DetokenizeRequest, services: ServicesDep) -> dict[str, Any]:
    """Text of token ids, control tokens spelled out."""
    answer, _ = await ask(request, services, Detokenize(request_id("tok"), body.tokens))
    assert isinstance(answer, Text)
    return {"content": answer.text}
