"""A framework's environment, and the process in it that is handed a job."""
