# Not spoilt: a flush lets go of the lock after a few pairs, so that it does so often in small trees.
s/^#define PAIRS_PER_HOLD 2048u/#define PAIRS_PER_HOLD 12u/
