/* SPDX-License-Identifier: MIT */
/**
 * @file limit_inline.h
 * The bodies of the limit's update calls. Compiled into callers that define PCPU_STAT_INLINE, and once into
 * the library, where PCPU_LIMIT_UPDATE makes them the exported functions. Included by limit.h alone.
 */
#ifndef PCPU_STAT_LIMIT_INLINE_H
#define PCPU_STAT_LIMIT_INLINE_H

/* Within the stock nothing can be refused, so asking costs what not asking costs: the section is the same. */
PCPU_LIMIT_UPDATE bool pcpu_limit_try_charge(struct pcpu_limit *limit, int64_t n, struct pcpu_limit **failed)
{
#ifdef PCPU_X86_LIMIT_CHARGE
	if (pcpu_unlikely(!PCPU_X86_OFFSET))
		goto slow;
	PCPU_X86_LIMIT_CHARGE(limit, n, slow);
	return true;
slow:
#endif
	return pcpu_limit_try_charge_slow(limit, n, failed);
}

PCPU_LIMIT_UPDATE void pcpu_limit_charge(struct pcpu_limit *limit, int64_t n)
{
#ifdef PCPU_X86_LIMIT_CHARGE
	if (pcpu_unlikely(!PCPU_X86_OFFSET))
		goto slow;
	PCPU_X86_LIMIT_CHARGE(limit, n, slow);
	return;
slow:
#endif
	pcpu_limit_charge_slow(limit, n);
}

PCPU_LIMIT_UPDATE void pcpu_limit_uncharge(struct pcpu_limit *limit, int64_t n)
{
#ifdef PCPU_X86_LIMIT_UNCHARGE
	if (pcpu_unlikely(!PCPU_X86_OFFSET))
		goto slow;
	PCPU_X86_LIMIT_UNCHARGE(limit, n, slow);
	return;
slow:
#endif
	pcpu_limit_uncharge_slow(limit, n);
}

#endif /* PCPU_STAT_LIMIT_INLINE_H */
