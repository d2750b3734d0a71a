/* SPDX-License-Identifier: MIT */
#include "cpu/rcu.h"

#include <urcu/urcu-bp.h>

void pcpu_rcu_read_lock(void)
{
	urcu_bp_read_lock();
}

void pcpu_rcu_read_unlock(void)
{
	urcu_bp_read_unlock();
}

void pcpu_rcu_synchronize(void)
{
	urcu_bp_synchronize_rcu();
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
