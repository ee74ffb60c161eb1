"""The little that is used of the package opentelemetry-api: begin and end a span, count tokens."""

from __future__ import annotations

from typing import Any

from agentnb.core.messages import Usage
from agentnb.errors import SettingsError
from agentnb.middleware import conventions
from agentnb.text import mask


class Api:
    """Tracer and meter, and what is done with them.

    Raises:
        SettingsError: The package is not installed.
    """

    def __init__(self, tracer_provider: Any, meter_provider: Any) -> None:
        try:
            from opentelemetry import context, metrics, trace
        except ImportError as error:
            remedy = 'Run pip install "agentnb-jupyter[otel]".'
            raise SettingsError("opentelemetry-api is not installed", layer="middleware", remedy=remedy) from error
        self.context = context
        self._trace = trace
        self._tracer = trace.get_tracer("agentnb", tracer_provider=tracer_provider)
        meter = metrics.get_meter("agentnb", meter_provider=meter_provider)
        self._duration = meter.create_histogram("gen_ai.client.operation.duration", "s")
        self._usage = meter.create_histogram("gen_ai.client.token.usage", "{token}")
        self._counters = {
            name: meter.create_counter(f"gen_ai.client.inference.usage.{end}", "{token}")
            for name, end in conventions.TOKENS.items()
        }

    def span(
        self,
        name: str,
        about: conventions.Attributes,
        context: Any = None,
        start: int | None = None,
        client: bool = False,
    ) -> Any:
        """Begin a span; without a context it hangs below the current one."""
        kind = self._trace.SpanKind.CLIENT if client else self._trace.SpanKind.INTERNAL
        return self._tracer.start_span(name, context, kind, about, start_time=start)

    def within(self, span: Any) -> Any:
        """The context in which this span is the current one."""
        return self._trace.set_span_in_context(span)

    def end(self, span: Any, failure: str = "", detail: str = "", end: int | None = None) -> None:
        """End a span, as an error if there was one."""
        if failure:
            span.set_attribute("error.type", failure)
            span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, mask(detail) or failure))
        span.end(end)

    def measure(self, seconds: float, usage: Usage | None, common: conventions.Attributes, failure: str) -> None:
        """The metrics of one model call."""
        self._duration.record(seconds, {**common, "error.type": failure} if failure else common)
        text = {**common, "gen_ai.token.modality": "text"}
        for name, count in conventions.known_tokens(usage):
            self._counters[name].add(count, text)
            if name in ("input", "output"):
                self._usage.record(count, {**common, "gen_ai.token.type": name})
