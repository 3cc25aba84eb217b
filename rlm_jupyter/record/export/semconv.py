"""The names that spans have by the semantic conventions of OpenTelemetry for generative AI, and ours beside them.

Source: https://github.com/open-telemetry/semantic-conventions-genai, the state of autumn 2026. All of it has the
status "development" there. `opentelemetry-semantic-conventions` has these names as deprecated constants, or not at all,
so they are written down here, and nowhere else.
"""

from __future__ import annotations

CHAT = "chat"
INVOKE_AGENT = "invoke_agent"
EXECUTE_TOOL = "execute_tool"
"""Values of `OPERATION`; a span's name begins with it."""

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"
CONVERSATION = "gen_ai.conversation.id"
COMPACTED = "gen_ai.conversation.compacted"
AGENT_NAME = "gen_ai.agent.name"
AGENT_VERSION = "gen_ai.agent.version"
AGENT = "rlm_jupyter"
"""What a run is called as an agent."""
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE = "gen_ai.usage.cache_write.input_tokens"
REASONING = "gen_ai.usage.reasoning.output_tokens"
TOOL_NAME = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
TOOL_CALL = "gen_ai.tool.call.id"
ERROR_TYPE = "error.type"

INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"
"""Content: it is opt-in by the conventions."""

EVALUATION = "gen_ai.evaluation.result"
"""An event."""
EVALUATION_NAME = "gen_ai.evaluation.name"
EVALUATION_SCORE = "gen_ai.evaluation.score.value"
EVALUATION_EXPLANATION = "gen_ai.evaluation.explanation"

COST = "gen_ai.usage.cost"
"""US dollars of one request. The conventions have no name for it yet; this is the one that is widely read."""
TOTAL_COST = "rlm.cost"
"""US dollars of a run and all below it: not to be added to the above."""
RUN = "rlm.run.id"
DEPTH = "rlm.depth"
STOP_REASON = "rlm.stop_reason"
ITERATION = "rlm.iteration"
REWARD = "rlm.reward"
RESAMPLED = "rlm.resampled"
"""Why a reply was resampled."""
CELL_STATUS = "rlm.cell.status"

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The environment variable by which content is opted in."""
CAPTURED = {"true", "1", "span_only", "span_and_event"}

_PROVIDERS = {"azure_openai": "azure.ai.openai", "gemini": "gcp.gemini"}


def provider(model: str) -> tuple[str, str]:
    """Return how the provider of a model is called there, and the model's own name."""
    name, _, rest = model.partition("/")
    return (_PROVIDERS.get(name, name), rest) if rest else ("_OTHER", model)


FINISHES = {"refusal": "content_filter"}
"""What is called otherwise there."""
