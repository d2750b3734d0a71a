/* SPDX-License-Identifier: MIT */
/*
 * Read-copy-update, for names and walking. Behind it stands liburcu's "bullet-proof" flavour, which asks no
 * registration of threads it has never seen; rcu.c is the one file that knows it. No call_rcu: that would
 * need a thread.
 */
#ifndef PCPU_LIB_CPU_RCU_H
#define PCPU_LIB_CPU_RCU_H

/* What is found between these two stays valid until the second. They nest. */
void pcpu_rcu_read_lock(void);
void pcpu_rcu_read_unlock(void);

/* Wait for all who are between them now. Never while holding a lock that one of those may wait for. */
void pcpu_rcu_synchronize(void);

/* Around fork(). */
void pcpu_rcu_fork_prepare(void);
void pcpu_rcu_fork_parent(void);
void pcpu_rcu_fork_child(void);

#endif /* PCPU_LIB_CPU_RCU_H */
