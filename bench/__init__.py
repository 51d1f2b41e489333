"""What things cost, as ratios against a baseline measured in the same run."""
