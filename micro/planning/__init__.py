"""What is to be measured: contests and their cases, by axes, by networks and by a library's log."""
