"""The court: public complaints about slow programs, rebuilt small, and what a report must say of each."""
