"""What a book and its flow say: each figure with its window, method and sample."""
