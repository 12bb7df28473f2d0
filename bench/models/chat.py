"""Call a chat model over HTTP, in the request format of its vendor.

``SchemaJudge`` requests JSON that fits a schema, and asks once more if the reply does not fit.

Example::

    judge = SchemaJudge(model)
    completion = await judge.ask(prompt)                       # prompt.json_schema is the requested form
    verdict = ReplySchema.of(prompt.json_schema).read(completion.text)  # a mapping, or None: the item is unscored

If a model rejects a setting, such as the temperature, the setting is left out of all later requests.
`Completion.ignored` lists requested settings without effect. An empty reply that ended with ``stop`` is requested once
more, and both calls count in usage and cost. If a content filter rejects a prompt or a reply, the finish of the reply
is ``refusal``.

The reply of a judge with a schema must be exactly one object of the schema.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Protocol

from bench.config.model import merge_body
from bench.errors import AuthError, CallError, MappingError, Rejected
from bench.http import Endpoint, ReportedUsage, Request, Response
from bench.json_reply import ReplySchema
from bench.model import ChatMessage, Completion, Model, Prompt, Usage
from bench.models import usage as usages
from bench.models.dialect import Dialect, ModelFeatures, Reply, body_error, is_filter_refusal
from bench.models.names import Target
from bench.models.reply import BATCHED, PROMPT_CACHED, UNSENT, strip_reasoning
from bench.models.streams import AFTER_FINISH, is_stream, read_events, usage_events
from bench.tokens import count_tokens, fewest_tokens

REFUSALS = ("-> 400", "-> 422", "the answer contains an error")
SCHEMA_WORDS = ("response_format", "json_schema", "responseJsonSchema", "responseMimeType", "tool_choice", "tools")
MAX_LESSONS = 6
"""number of settings that a model may reject: temperature, seed, token limit, schema, stream, stream usage"""
SEEN_SHARE = 0.6
"""share of the estimated prompt tokens; an endpoint that reports fewer tokens has read only a part of the prompt"""


class Price(Protocol):
    """The function that returns the price of a call in USD as decimal text; None if the price is unknown.

    ``bench.engine.models.CallPricing`` implements it.
    """

    def __call__(
        self, name: str, usage: Usage, *, returned: str | None, when: datetime, batch: bool = False
    ) -> str | None: ...


@dataclass(slots=True)
class _CallResult:
    """The reply of one call with its usage and price. The retry loop fills it when it reads a response."""

    reply: Reply | None = None
    usage: Usage | None = None
    unreadable: bool = False
    late: bool = False
    """True if text arrived in a stream after the event that finished the reply"""
    cost_usd: str | None = None
    saved_usd: str | None = None


class Sender(Protocol):
    """An object that sends requests: `Http` or `BatchSender`."""

    async def call(self, endpoint: Endpoint, request: Request) -> Response: ...


class ChatModel:
    """One model in one role, such as judge. Its calls have their own rate limiter, and may be sent in batches."""

    def __init__(
        self,
        *,
        target: Target,
        dialect: Dialect,
        http: Sender,
        endpoint: Endpoint,
        features: ModelFeatures,
        price: Price | None,
        batch: bool = False,
    ) -> None:
        self._batch = batch
        self._target = target
        self._dialect = dialect
        self._http = http
        self._endpoint = endpoint
        self._features = features
        self._price = price

    @property
    def name(self) -> str:
        return self._target.name

    async def complete(self, prompt: Prompt) -> Completion:
        """Call the model and return its reply. A refusal or a truncated text is returned, not raised.

        Raises:
            CallError: for the same reasons as in :meth:`bench.http.Http.call`.
        """
        answer = await self._ask(prompt)
        if answer.text.strip() or answer.finish != "stop":
            return answer
        return combined(answer, await self._ask(prompt))

    async def _ask(self, prompt: Prompt) -> Completion:
        for _ in range(MAX_LESSONS):
            features = self._features
            try:
                return await self._send(prompt, features)
            except (Rejected, AuthError) as error:
                inner = body_error(error.body)
                if error.body and is_filter_refusal(inner):
                    return self._filtered(prompt, features)
                refusal = f"{error} {_error_fields(inner)}"
                if isinstance(error, AuthError) or without_refused_feature(features, refusal) is None:
                    raise
                # another call of this model may have learnt something else in the meantime
                self._features = without_refused_feature(self._features, refusal) or self._features
        return await self._send(prompt, self._features)

    def _filtered(self, prompt: Prompt, features: ModelFeatures) -> Completion:
        return Completion(
            text="",
            model=self._target.model,
            finish="refusal",
            native_finish="content_filter",
            ignored=_ignored(prompt, features),
            sent_tokens=count_tokens("\n".join(message.content for message in prompt.messages)),
        )

    async def _send(self, prompt: Prompt, features: ModelFeatures) -> Completion:
        sent_prompt = (
            prompt if features.schema or prompt.json_schema is None else with_schema_text(prompt, prompt.json_schema)
        )
        text = "\n".join(message.content for message in sent_prompt.messages)
        result, sent = _CallResult(), count_tokens(text)
        target = self._target
        request = Request(
            "POST",
            self._dialect.chat_url(target.base_url, target.model, stream=features.stream),
            headers=target.headers,
            query=target.query,
            json=merge_body(self._dialect.chat_body(target.model, sent_prompt, features), features.body),
            idempotent=True,
            tokens=sent + sent_prompt.max_tokens,
            key=str(prompt.epoch),
            read=lambda response: self._read(response, text, result),
            read_failed=partial(failed_usage, target, self._price, batch=self._batch),
        )
        response = await self._http.call(self._endpoint, request)
        assert result.reply is not None, "call returns only after read"
        reply, ignored = result.reply, _ignored(prompt, features)
        return strip_reasoning(
            Completion(
                text=reply.text,
                model=reply.model or target.model,
                finish=reply.finish,
                native_finish=reply.native_finish,
                reasoning=reply.reasoning,
                fingerprint=reply.fingerprint,
                usage=result.usage,
                cost_usd=result.cost_usd,
                saved_usd=result.saved_usd,
                latency_us=response.timings.latency_us,
                attempts=response.attempts,
                ignored=ignored,
                flags=(
                    *_flags(result, text),
                    *((BATCHED,) if self._batch else ()),
                    *(UNSENT + name for name in ignored),
                ),
                sent_tokens=sent,
            )
        )

    def _read(self, response: Response, prompt: str, result: _CallResult) -> ReportedUsage:
        try:
            body = self._body(response)
            reply = result.reply = self._dialect.read_chat(body)
        except CallError as error:
            return unusable_reply(self._target, self._price, response, error, batch=self._batch)
        dialect, result.late = self._target.dialect, isinstance(body, Mapping) and AFTER_FINISH in body
        used = result.usage = usages.normalise(dialect, body, prompt=prompt, reply=reply.text + reply.reasoning)
        result.unreadable = used.estimated and usages.is_usage_unreadable(dialect, body)
        result.cost_usd = call_price(self._target, self._price, used, returned=reply.model, batch=self._batch)
        if used.cache_read_tokens or used.cache_write_tokens or self._batch:
            plain = replace(used, cache_read_tokens=0, cache_write_tokens=0)
            full = call_price(self._target, self._price, plain, returned=reply.model)
            result.saved_usd = _difference(full, result.cost_usd)
        return ReportedUsage(model=reply.model or self._target.model, usage=used, cost_usd=result.cost_usd)

    def _body(self, response: Response) -> object:
        if not is_stream(response):
            return response.json()
        events, done = read_events(response.text)
        return self._dialect.join_events(events, done=done)


def _flags(result: _CallResult, sent: str) -> tuple[str, ...]:
    used = result.usage
    counted = used is not None and not used.estimated and used.input_tokens > 0
    cached = used is not None and bool(used.cache_read_tokens or used.cache_write_tokens)
    few = used is not None and max(used.input_tokens, used.cache_read_tokens) < SEEN_SHARE * fewest_tokens(sent)
    noted = {
        AFTER_FINISH: result.late,
        "usage_unreadable": result.unreadable,
        "prompt_cut": counted and few,
        PROMPT_CACHED: cached,
    }
    return tuple(flag for flag, holds in noted.items() if holds)


def _error_fields(error: object) -> str:
    """Return the message and the codes of an error. The rest of the body is left out: it may contain the prompt."""
    if not isinstance(error, Mapping):
        return str(error)[:SHOWN]
    return " ".join(str(error[key])[:SHOWN] for key in ("message", "param", "code", "type") if error.get(key))


SHOWN = 1000


def call_price(
    target: Target, price: Price | None, used: Usage, *, returned: str | None, batch: bool = False
) -> str | None:
    """Return the price of a call in USD as decimal text: "0" for a free model, None if it is unknown.

    If the usage is only estimated, the price is unknown.
    """
    if target.free:
        return "0"
    if price is None or used.estimated:
        return None
    return price(target.name, used, returned=returned, when=datetime.now(UTC), batch=batch)


def failed_usage(
    target: Target, price: Price | None, response: Response, *, batch: bool = False
) -> ReportedUsage | None:
    """Return the usage and price of a failed call; None if its response reports no usage."""
    try:
        body = usage_events(response.text) if is_stream(response) else response.json()
    except MappingError:
        return None
    used = usages.normalise(target.dialect, body)
    if used.estimated:
        return None
    named = body.get("model") if isinstance(body, Mapping) else None
    model = named if isinstance(named, str) and named else target.model
    return ReportedUsage(model=model, usage=used, cost_usd=call_price(target, price, used, returned=model, batch=batch))


def unusable_reply(
    target: Target, price: Price | None, response: Response, error: CallError, *, batch: bool = False
) -> ReportedUsage:
    """Return ``error``, the reason why a response cannot be used, together with the usage and price of the call.

    Usage and price are unknown if the response reports no usage.
    """
    return replace(failed_usage(target, price, response, batch=batch) or ReportedUsage(), error=error)


def without_refused_feature(features: ModelFeatures, refusal: str) -> ModelFeatures | None:
    """Return the features without the setting that the error text ``refusal`` names.

    Return None if the text names no setting that can be left out.
    """
    if not any(status in refusal for status in REFUSALS):
        return None
    if "max_completion_tokens" in refusal and features.tokens_name == "max_tokens":
        return replace(features, tokens_name="max_completion_tokens")
    if "temperature" in refusal and features.temperature:
        return replace(features, temperature=False)
    if features.schema and any(word in refusal for word in SCHEMA_WORDS):
        return replace(features, schema=False)
    if "seed" in refusal and features.seed:
        return replace(features, seed=False)
    if "stream_options" in refusal and features.stream and features.stream_usage:
        return replace(features, stream_usage=False)
    if "stream" in refusal and not features.stream:
        return replace(features, stream=True)
    return None


def with_schema_text(prompt: Prompt, schema: Mapping[str, object]) -> Prompt:
    """Return the prompt with the JSON schema written into its text, for a model without schema support."""
    wanted = json.dumps(schema, ensure_ascii=False, sort_keys=True)
    request = f"Reply with one JSON object and nothing else. It must fit this JSON Schema:\n{wanted}"
    last = prompt.messages[-1]
    return replace(prompt, messages=(*prompt.messages[:-1], replace(last, content=f"{last.content}\n\n{request}")))


def _ignored(prompt: Prompt, features: ModelFeatures) -> tuple[str, ...]:
    names = [] if features.temperature else ["temperature"]
    if prompt.seed is not None and not features.seed:
        names.append("seed")
    return tuple(names)


def combined(first: Completion, second: Completion) -> Completion:
    """Return the second completion with the usage, cost, time and attempts of both completions together."""
    used = None if first.usage is None or second.usage is None else first.usage + second.usage
    return replace(
        second,
        usage=used,
        cost_usd=_sum(first.cost_usd, second.cost_usd),
        saved_usd=_sum(first.saved_usd or "0", second.saved_usd or "0")
        if first.saved_usd or second.saved_usd
        else None,
        latency_us=first.latency_us + second.latency_us,
        attempts=first.attempts + second.attempts,
        flags=tuple(dict.fromkeys((*first.flags, *second.flags))),
    )


def _difference(full: str | None, paid: str | None) -> str | None:
    return None if full is None or paid is None else str(Decimal(full) - Decimal(paid))


def _sum(first: str | None, second: str | None) -> str | None:
    return None if first is None or second is None else str(Decimal(first) + Decimal(second))


REPAIR = (
    "That is not one JSON object that fits the schema. Reply again with that JSON object only, "
    "no other text, no code fence. The schema:\n"
)


class SchemaJudge:
    """A judge that replies by a JSON schema. If its first reply does not fit the schema, it is asked once more.

    A reply that was cut at the token limit, or a refusal, is returned unchanged.
    """

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def name(self) -> str:
        return self._model.name

    async def ask(self, prompt: Prompt) -> Completion:
        """Return the model's reply. If the model is asked twice, return the second reply with the cost of both."""
        answer = await self._model.complete(prompt)
        schema = prompt.json_schema
        if schema is None or answer.finish in ("length", "refusal"):
            return answer
        if ReplySchema.of(schema).read(answer.text) is not None:
            return answer
        return combined(answer, await self._model.complete(_repair_prompt(prompt, answer, schema)))


def _repair_prompt(prompt: Prompt, answer: Completion, schema: Mapping[str, object]) -> Prompt:
    reply = ChatMessage(role="assistant", content=answer.text or "(nothing)")
    request = ChatMessage(role="user", content=REPAIR + json.dumps(schema, ensure_ascii=False, sort_keys=True))
    return replace(prompt, messages=(*prompt.messages, reply, request))
