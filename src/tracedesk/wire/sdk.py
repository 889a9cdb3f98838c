"""The one door to the MCP SDK: every name of it that the wire uses, and nothing else.

Pinned to one minor line; a bump passes the conformance suite before it lands.
"""

from __future__ import annotations

import mcp_types as types
from mcp.server.connection import Connection, allowed_log_levels
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.request_state import (
    AESGCMRequestStateCodec,
    RequestStateBoundary,
    RequestStateSecurity,
)
from mcp.server.runner import ServerRunner, aclose_shielded, modern_error_data
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.inbound import (
    ERROR_CODE_HTTP_STATUS,
    InboundLadderRejection,
    classify_inbound_request,
    find_duplicated_routing_header,
    unsupported_protocol_version_rejection,
    validate_mcp_param_headers,
)
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS

__all__ = [
    "ERROR_CODE_HTTP_STATUS",
    "HANDSHAKE_PROTOCOL_VERSIONS",
    "LATEST_MODERN_VERSION",
    "MODERN_PROTOCOL_VERSIONS",
    "AESGCMRequestStateCodec",
    "CallNext",
    "CallOptions",
    "Connection",
    "HandlerResult",
    "InMemorySubscriptionBus",
    "InboundLadderRejection",
    "InitializationOptions",
    "ListenHandler",
    "MCPError",
    "NoBackChannelError",
    "NotificationOptions",
    "PromptsListChanged",
    "RequestStateBoundary",
    "RequestStateSecurity",
    "ResourceUpdated",
    "ResourcesListChanged",
    "Server",
    "ServerEvent",
    "ServerMessageMetadata",
    "ServerRequestContext",
    "ServerRunner",
    "ToolsListChanged",
    "TransportContext",
    "aclose_shielded",
    "allowed_log_levels",
    "classify_inbound_request",
    "find_duplicated_routing_header",
    "modern_error_data",
    "types",
    "unsupported_protocol_version_rejection",
    "validate_mcp_param_headers",
]
