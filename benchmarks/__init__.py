"""Speed, as ratios in one run after agreement was checked; and what penalties and depth are worth."""
