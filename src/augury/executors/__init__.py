"""What evaluates functions elsewhere: executors of `concurrent.futures`."""
