"""HTTP to every provider and model: slot, limiter, send, classify, retry or raise.

Example::

    async with Http(concurrency=10) as http:
        chroma = Endpoint(name="chroma.search", role="provider", limits=Limits(rps=50))
        with recording() as calls:
            response = await http.call(chroma, Request("POST", url, json={"q": "cats"}, idempotent=True))
        response.json(), calls[0].provider_us

May be added here: what is true of every HTTP call. May not: anything that knows a provider, a model or a phase.
"""

from __future__ import annotations

from bench.http.call_log import record, recording
from bench.http.client import Http
from bench.http.endpoint import Endpoint, Feedback, Limits, Retry, Timeouts
from bench.http.message import FormField, Metered, Request, Response, Timings

__all__ = [
    "Endpoint",
    "Feedback",
    "FormField",
    "Http",
    "Limits",
    "Metered",
    "Request",
    "Response",
    "Retry",
    "Timeouts",
    "Timings",
    "record",
    "recording",
]
