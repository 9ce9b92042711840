"""What is known of a job when it is submitted: its request and the as-of history of its keys."""
