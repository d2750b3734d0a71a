/* SPDX-License-Identifier: MIT */
/* The one file that knows liburcu. */
#include "cpu/rcu.h"

#include <urcu/urcu-bp.h>

/*
 * liburcu is not instrumented, so ThreadSanitizer does not see what a grace period orders: whatever a reader
 * did comes before whatever follows the grace period that waited for it. It is told here.
 */
#if defined(__SANITIZE_THREAD__)
#define ORDER_SHOWN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ORDER_SHOWN 1
#endif
#endif
#ifdef ORDER_SHOWN
#include <sanitizer/tsan_interface.h>
static char readers_done;
#define SHOW_READER_DONE()  __tsan_release(&readers_done)
#define SHOW_READERS_DONE() __tsan_acquire(&readers_done)
#else
#define SHOW_READER_DONE()
#define SHOW_READERS_DONE()
#endif

void pcpu_rcu_read_lock(void)
{
	urcu_bp_read_lock();
}

void pcpu_rcu_read_unlock(void)
{
	SHOW_READER_DONE();
	urcu_bp_read_unlock();
}

void pcpu_rcu_synchronize(void)
{
	urcu_bp_synchronize_rcu();
	SHOW_READERS_DONE();
}

void pcpu_rcu_fork_prepare(void)
{
	urcu_bp_before_fork();
}

void pcpu_rcu_fork_parent(void)
{
	urcu_bp_after_fork_parent();
}

void pcpu_rcu_fork_child(void)
{
	urcu_bp_after_fork_child();
}
