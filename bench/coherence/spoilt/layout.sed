# The word that all CPUs carry to moves to the line that every add reads.
/^	int64_t value;/d
/^	int64_t bias;/a\
	int64_t value;
