/* SPDX-License-Identifier: MIT */
/* region/placement: where the pages are, by libnuma. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include <pcpu_stat/pcpu_stat.h>

#include "cpu/cpu.h"
#include "region/region.h"

Test(placement, arguments)
{
	struct pcpu_placement found = {.size = sizeof(found)};
	struct pcpu_region *region;

	expect_eq(pcpu_region_create(&region, NULL), 0);
	expect_eq(pcpu_region_placement(NULL, &found), -EINVAL);
	expect_eq(pcpu_region_placement(region, NULL), -EINVAL);
	found.size = sizeof(found) - 1;
	expect_eq(pcpu_region_placement(region, &found), -EINVAL);
	pcpu_region_close(region);
}

Test(placement, counts_pages)
{
	struct {
		struct pcpu_placement found;
		char newer[16];
	} big;
	struct pcpu_region_attr attr = {.size = sizeof(attr), .bytes_per_cpu = 16 << 10};
	struct pcpu_region *region;
	uint64_t pages;
	int r;

	expect_eq(pcpu_region_create(&region, &attr), 0);
	memset(&big, 0x5a, sizeof(big));
	big.found.size = sizeof(big);
	errno = 77;
	r = pcpu_region_placement(region, &big.found);
	expect_eq(errno, 77);
	if (r == -ENOSYS || r == -EPERM)
		return; /* the system does not say */
	expect_eq(r, 0);
	expect_eq(big.newer[15], 0);
	pages = big.found.untouched;
	expect_eq(pages, region->cpu.chunks * (region->cpu.bytes / 4096));
	expect_eq(big.found.local + big.found.elsewhere, 0);
	*pcpu_zone_at(&region->cpu, 0, 0) = 1;
	*pcpu_zone_at(&region->cpu, 8192, region->cpu.chunks - 1) = 1;
	expect_eq(pcpu_region_placement(region, &big.found), 0);
	expect_eq(big.found.untouched, pages - 2);
	expect_eq(big.found.local, 2);
	pcpu_region_close(region);
}
