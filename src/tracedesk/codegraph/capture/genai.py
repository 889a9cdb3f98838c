"""The names that traces use, all in this one table.

`gen_ai.*`, `code.*` and `error.*` are OpenTelemetry's semantic conventions for generative AI as of
opentelemetry-semantic-conventions 0.66b2, where every one of them is still "development": a change of
theirs is a change here. `etg.*` are our own, for what has no name there.
"""

from __future__ import annotations

from typing import Final

SEMCONV: Final = "0.66b2"
SCOPE: Final = "tracedesk.etg"
"""The instrumentation scope of our exports."""

# --- resource
SERVICE_NAME: Final = "service.name"
PROJECT: Final = "etg.project"

# --- any span
OPERATION: Final = "gen_ai.operation.name"
CONVERSATION: Final = "gen_ai.conversation.id"
AGENT: Final = "gen_ai.agent.name"
ERROR_TYPE: Final = "error.type"
FILES: Final = "code.file.path"
ATTEMPT: Final = "etg.attempt.id"

# --- the attempt
INVOKE_AGENT: Final = "invoke_agent"
INPUT: Final = "gen_ai.input.messages"
OUTPUT: Final = "gen_ai.output.messages"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
ATTEMPT_OUTCOME: Final = "etg.attempt.outcome"
ATTEMPT_VERSION: Final = "etg.attempt.graph_version"
ATTEMPT_CUT: Final = "etg.attempt.truncated"

# --- tools
EXECUTE_TOOL: Final = "execute_tool"
TOOL: Final = "gen_ai.tool.name"
CALL_ID: Final = "gen_ai.tool.call.id"
ARGUMENTS: Final = "gen_ai.tool.call.arguments"
RESULT: Final = "gen_ai.tool.call.result"
STATUS: Final = "etg.tool.status"
DURATION: Final = "etg.tool.duration_ms"

# --- retrieval
RETRIEVAL: Final = "retrieval"
QUERY: Final = "gen_ai.retrieval.query.text"
DOCUMENTS: Final = "gen_ai.retrieval.documents"

# --- one event of ours; a tool's span has two, so these carry the part as a suffix there
EVENT_ID: Final = "etg.event.id"
EVENT_TIME: Final = "etg.event.time_unix_nano"
EVENT_CALL: Final = "etg.event.call_id"
EVENT_OUTCOME: Final = "etg.event.outcome"
EVENT_SELF: Final = "etg.event.self"
REST: Final = "etg.event.payload"
"""What of the payload has no name above, as JSON."""
MESSAGE: Final = "etg.message"
GRAPH_VERSION: Final = "etg.graph_version"
EVENT_NAMES: Final = {
    "etg.checkpoint": "checkpoint",
    "etg.answer_rendered": "answer_rendered",
    "etg.context_retrieved": "context_retrieved",
}
"""Events of a span that are events of ours."""
