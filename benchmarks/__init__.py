"""What a call costs on our wire, as ratios against named rivals measured in the same run."""
