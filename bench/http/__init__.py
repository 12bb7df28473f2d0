"""Send HTTP requests to providers and models, with rate limits and retries.

Example::

    async with Http(concurrency=10) as http:
        chroma = Endpoint(name="chroma.search", role="provider", limits=Limits(rps=50))
        with recording() as calls:
            response = await http.call(chroma, Request("POST", url, json={"q": "cats"}, idempotent=True))
        response.json(), calls[0].provider_us

This package must not depend on providers, models or phases.
"""

from __future__ import annotations

from bench.http.call_log import record, recording
from bench.http.client import Http
from bench.http.endpoint import Endpoint, Feedback, Limits, Retry, Timeouts
from bench.http.message import FormField, ReportedUsage, Request, Response, Timings

__all__ = [
    "Endpoint",
    "Feedback",
    "FormField",
    "Http",
    "Limits",
    "ReportedUsage",
    "Request",
    "Response",
    "Retry",
    "Timeouts",
    "Timings",
    "record",
    "recording",
]
