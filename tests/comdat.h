/* SPDX-License-Identifier: MIT */
/*
 * A C++ inline function with adds in it. check_sections.sh makes two files of it, of whose copies the linker
 * keeps one: the other's sections must go with it.
 */
#define PCPU_STAT_INLINE
#include <pcpu_stat/pcpu_stat.h>

inline void comdat_add(struct pcpu_counter *c)
{
	pcpu_counter_add(c, 1);
	pcpu_counter_add(c, 2);
}

typedef void (*comdat_fn)(struct pcpu_counter *);
comdat_fn comdat_first();
comdat_fn comdat_second();

#ifdef COMDAT_SECOND
comdat_fn comdat_second()
{
	return comdat_add;
}
#else
static struct pcpu_counter counter = PCPU_COUNTER_INIT;

comdat_fn comdat_first()
{
	return comdat_add;
}

int main()
{
	for (int i = 0; i < 1000; i++) {
		comdat_first()(&counter);
		comdat_second()(&counter);
	}
	return pcpu_counter_sum(&counter) == 6000 && comdat_first() == comdat_second() ? 0 : 1;
}
#endif
