/* SPDX-License-Identifier: MIT */
/* cpu/fence: membarrier, there, refused, and forgotten by a fork. */
#include "unit.h"

#include <errno.h>

#include "cpu/cpu.h"
#include "cpu/fence.h"
#include "os_fake.h"

#define PRIVATE		 (1 << 3)
#define PRIVATE_RSEQ	 (1 << 7)
#define REGISTER_PRIVATE (1 << 4)
#define GLOBAL		 (1 << 1)

static int last_command;
static long answer;

Test(fence, everything_there)
{
	fake_machine("0", "0");
	pcpu_fence_start(&fake.os);
	expect_eq(pcpu_fence_kinds(), PCPU_FENCE_PROCESS | PCPU_FENCE_GLOBAL | PCPU_FENCE_RSEQ);
	expect(pcpu_fence_process());
	expect(pcpu_fence_sections());
}

Test(fence, refused)
{
	static const long refusals[] = {-ENOSYS, -EPERM};

	for (int i = 0; i < 2; i++) {
		fake_machine("0", "0");
		fake.membarriers = refusals[i];
		pcpu_fence_start(&fake.os);
		fake.asked_fence = 0;
		expect_eq(pcpu_fence_kinds(), 0);
		expect(!pcpu_fence_process());
		expect(!pcpu_fence_sections());
		expect_eq(fake.asked_fence, 0); /* not asked again: the answer may have become a signal */
	}
}

Test(fence, old_kernel)
{
	fake_machine("0", "0");
	fake.membarriers = 1; /* the slow one of 4.3 alone */
	pcpu_fence_start(&fake.os);
	expect_eq(pcpu_fence_kinds(), 0);
	fake.membarriers = PRIVATE | REGISTER_PRIVATE;
	pcpu_fence_start(&fake.os);
	expect_eq(pcpu_fence_kinds(), PCPU_FENCE_PROCESS);
	expect(!pcpu_fence_sections());
}

static long registration_refused(int command)
{
	return command == 0 ? PRIVATE | PRIVATE_RSEQ : -EPERM;
}

Test(fence, registration_refused)
{
	fake_machine("0", "0");
	fake.os.membarrier = registration_refused;
	pcpu_fence_start(&fake.os);
	expect_eq(pcpu_fence_kinds(), 0);
}

/* After a fork: the first fence says -EPERM until the child has registered. */
static long forgetful(int command)
{
	if (command == 0)
		return 0x1ff;
	if (command == REGISTER_PRIVATE) {
		answer = 0;
		return 0;
	}
	last_command = command;
	return command == PRIVATE ? answer : 0;
}

Test(fence, registers_again)
{
	fake_machine("0", "0");
	fake.os.membarrier = forgetful;
	pcpu_fence_start(&fake.os);
	answer = -EPERM;
	expect(pcpu_fence_process());
	expect_eq(last_command, PRIVATE);
	answer = -EINVAL;
	expect(!pcpu_fence_process());
}

Test(fence, this_machine)
{
	errno = 77;
	pcpu_fence_start(&pcpu_linux);
	if (pcpu_fence_kinds() & PCPU_FENCE_PROCESS)
		expect(pcpu_fence_process());
	if (pcpu_fence_kinds() & PCPU_FENCE_RSEQ)
		expect(pcpu_fence_sections());
	expect_eq(errno, 77);
}
