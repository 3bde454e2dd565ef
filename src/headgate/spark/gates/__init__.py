"""What a gate does to rows: which fall, what is counted, what answers under shedding are worth."""
