"""What does not look like this market's own recent past, by baselines that bursts do not move."""

from tracedesk.exchange.analytics.anomalies.anomaly import Anomaly, Kind
from tracedesk.exchange.analytics.anomalies.detector import BASELINE_S, Anomalies, detect

__all__ = ["BASELINE_S", "Anomalies", "Anomaly", "Kind", "detect"]
