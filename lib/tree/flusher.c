/* SPDX-License-Identifier: MIT */
/*
 * The background thread: looks once a period whether anything changed, and flushes if so. Nobody wakes it to
 * flush: updaters that did were what slowed aim7 down (S4).
 */
#include "tree/tree.h"

#include <errno.h>
#include <signal.h>
#include <time.h>

void pcpu_flusher_init(struct pcpu_tree *tree)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&tree->flusher_wake, &attr);
	pthread_condattr_destroy(&attr);
}

void pcpu_flusher_forked(struct pcpu_tree *tree)
{
	/* The thread stayed with the parent; the condition it waits on is made anew. */
	tree->flusher_runs = false;
	pcpu_flusher_init(tree);
}

/* It is not told to stop, and nobody has started another one since. Under the lock. */
static bool goes_on(const struct pcpu_tree *tree)
{
	return tree->flusher_runs && pthread_equal(tree->flusher, pthread_self());
}

static void wait_period(struct pcpu_tree *tree, unsigned period_ms)
{
	uint64_t until = pcpu_now() + period_ms * (uint64_t)1000000;
	struct timespec t = {(time_t)(until / 1000000000), (long)(until % 1000000000)};

	while (goes_on(tree) &&
	       pthread_cond_timedwait(&tree->flusher_wake, &tree->flusher_lock, &t) != ETIMEDOUT)
		;
}

static void *flusher(void *context)
{
	struct pcpu_tree *tree = context;

	/* Whoever starts us holds the lock until it has noted that it did. */
	pthread_mutex_lock(&tree->flusher_lock);
	while (goes_on(tree)) {
		wait_period(tree, tree->flusher_period_ms);
		if (!goes_on(tree))
			break;
		pthread_mutex_unlock(&tree->flusher_lock);
		pcpu_node_flush(tree->root); /* a load when the tree is clean */
		pthread_mutex_lock(&tree->flusher_lock);
	}
	pthread_mutex_unlock(&tree->flusher_lock);
	return NULL;
}

int pcpu_tree_flusher_start(struct pcpu_tree *tree, unsigned period_ms)
{
	sigset_t all, old;
	int saved = errno, r = 0;

	if (period_ms == 0)
		return -EINVAL;
	sigfillset(&all);
	pthread_mutex_lock(&tree->flusher_lock);
	if (tree->flusher_runs) {
		r = -EALREADY;
	} else {
		tree->flusher_period_ms = period_ms;
		/* The program's signals are the program's. */
		pthread_sigmask(SIG_SETMASK, &all, &old);
		r = -pthread_create(&tree->flusher, NULL, flusher, tree);
		pthread_sigmask(SIG_SETMASK, &old, NULL);
		tree->flusher_runs = r == 0;
	}
	pthread_mutex_unlock(&tree->flusher_lock);
	errno = saved;
	return r;
}

int pcpu_tree_flusher_stop(struct pcpu_tree *tree)
{
	pthread_t thread;
	bool runs;

	pthread_mutex_lock(&tree->flusher_lock);
	runs = tree->flusher_runs;
	thread = tree->flusher;
	/* Whoever finds it running joins it; nobody else may. */
	tree->flusher_runs = false;
	pthread_cond_broadcast(&tree->flusher_wake);
	pthread_mutex_unlock(&tree->flusher_lock);
	if (runs)
		pthread_join(thread, NULL);
	return 0;
}
