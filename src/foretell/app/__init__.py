"""The command line, the demo and the report: the one place that wires the parts together."""
