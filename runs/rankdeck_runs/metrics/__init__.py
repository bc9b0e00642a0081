"""Numbers that ranks write into their logs, as series: docs/metrics.md."""
