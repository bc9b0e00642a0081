"""Who is to blame for a failed run: by the order of exits, by signals, and by what the logs say. Pure."""
