"""Plans of measurements: contests and their cases, by axes, by networks and by a library's log."""
