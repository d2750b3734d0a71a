# The flusher takes what it finds in a slot, in place of remembering what it saw.
/^static .*fold_slot(/,/^}/{
	s/__atomic_load_n(&values\[i\], __ATOMIC_SEQ_CST)/__atomic_exchange_n((int64_t *)(uintptr_t)\&values[i], 0, __ATOMIC_SEQ_CST)/
	s/ - (uint64_t)shadow\[i\]//
	s/shadow\[i\] = value;/(void)shadow;/
}
