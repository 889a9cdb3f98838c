"""Long-lived processes of a home: finding them, talking to them, and being one."""

from tracedesk.hosts.client import HostClient, Snapshot, connect
from tracedesk.hosts.errors import HostBusy, HostError, HostFailed, HostGone, HostTimeout
from tracedesk.hosts.finding import HostInfo, Sighting, find, find_one, survey
from tracedesk.hosts.host import Host, HostCall, Method
from tracedesk.hosts.keepsakes import last_snapshots
from tracedesk.hosts.launch import serve_host, spawn

__all__ = [
    "Host",
    "HostBusy",
    "HostCall",
    "HostClient",
    "HostError",
    "HostFailed",
    "HostGone",
    "HostInfo",
    "HostTimeout",
    "Method",
    "Sighting",
    "Snapshot",
    "connect",
    "find",
    "find_one",
    "last_snapshots",
    "serve_host",
    "spawn",
    "survey",
]
