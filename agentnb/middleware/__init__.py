"""What may stand around the loop: each file is one idea, and an example for your own."""
