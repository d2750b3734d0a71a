/* SPDX-License-Identifier: MIT */
/*
 * Simulated CPUs.
 *
 * The library's sources, and the rivals', are compiled with -fsanitize=thread: the compiler puts a call before
 * every memory access. Those calls do not end in ThreadSanitizer but in runtime.c, and from there here: the
 * access is shown to the coherence model, which says how long it takes, and then another CPU may run. All this
 * happens in one real thread; simulated threads are coroutines with stacks of their own. So everything is a
 * pure function of the program, the options and the seed, and 512 CPUs need no more than one.
 *
 * Two ways to choose who runs next:
 *
 *	By clock, for counting. CPU i runs thread i. An access that has to wait for another CPU's cache, and
 *	the end of each operation, hand over to the CPU with the smallest clock. An access to a line that the
 *	CPU has costs a nanosecond or five and nobody is asked: between two points where CPUs can notice each
 *	other it does not matter who went first. So the order of transfers is that of simulated time, to the
 *	few nanoseconds that a CPU may be ahead on its own lines.
 *
 *	By lot, for correctness. After each access some CPU goes on, any of them; and now and then the thread on
 *	it is preempted, waits with others that have no CPU, and later comes back, on the same CPU or another.
 *	Clocks mean nothing then.
 *
 * Restartable sections are those of lib/arch/rseq_simulated.h. A thread that is preempted, moved, or fenced by
 * membarrier is marked as interrupted, and its section's store is refused. Its area, which names the CPU and the
 * section that is armed, is kept right the way the kernel does.
 *
 * What the threads see of the C library is replaced where it would leave the simulation: mutexes, the clock,
 * sched_yield (by the linker's --wrap, see meson.build), and read-copy-update, which is one number here.
 * Thread-local storage is not: nothing that runs here may use it. pcpu_thread_pointer() is our own.
 *
 * A coroutine's own stack is not shown to the model: nobody else looks there.
 */
#define _GNU_SOURCE
#include "machine.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "arch/rseq.h"
#include "cpu/cpu.h"
#include "cpu/rcu.h"
#include "region/region.h"

enum {
	MAX_THREADS = 2048,
	STACK_BYTES = 64 << 10,
	NO_CPU = -1,
	/* What system calls take, in ns: again constants of the model. */
	COST_YIELD = 500,
	COST_FENCE = 2000,
	COST_CLOCK = 20,
	/* How far a CPU may be ahead with accesses to lines it has, so that no loop over them goes on for ever. */
	MAX_LEAD = 200,
	/* Where in a thread's block its area lies. */
	AREA_OFFSET = 64,
	BLOCK_BYTES = 128,
};

struct thread {
	ucontext_t context;
	char *stack;
	char *block; /* stands for the thread control block: the thread pointer */
	int cpu;
	uint64_t clock;
	bool interrupted; /* since its section began */
	bool done;
	const void *waits_for; /* a mutex */
};

static struct {
	struct machine_options options;
	struct thread threads[MAX_THREADS];
	unsigned nr_threads;
	char *stacks, *blocks;
	void (*body)(unsigned thread, void *ctx);
	void *ctx;
	struct thread *current; /* NULL: nothing runs, the library is called from outside */
	ucontext_t outside;
	unsigned left;
	uint64_t now, random;
	/* By clock: a heap of those who can run and do not. */
	struct thread *heap[MAX_THREADS];
	unsigned heap_size;
	/* By lot: who is on which CPU, and who is on none. */
	struct thread *on_cpu[MODEL_MAX_CPUS];
	unsigned nr_on_cpu; /* CPUs that have a thread come first */
	struct thread *waiting[MAX_THREADS];
	unsigned nr_waiting;
	unsigned readers; /* read-copy-update */
	struct machine_events events;
} machine;

/* Before machine_start, and outside of machine_run. */
static _Alignas(BLOCK_BYTES) char outside_block[BLOCK_BYTES];

/* What the library finds its area by; the C library's own are not used in this program. */
extern const ptrdiff_t __rseq_offset;
extern const unsigned int __rseq_size;
const ptrdiff_t __rseq_offset = AREA_OFFSET;
const unsigned int __rseq_size = sizeof(struct pcpu_rseq_area);

static __attribute__((noreturn)) void fail(const char *what)
{
	fprintf(stderr, "simulated machine: %s\n", what);
	abort();
}

uint64_t machine_random(void)
{
	/* splitmix64 (Steele, Lea, Flood) */
	uint64_t z = machine.random += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static unsigned draw(unsigned from)
{
	return (unsigned)((machine_random() >> 32) * from >> 32);
}

static struct pcpu_rseq_area *area_of(char *block)
{
	return (struct pcpu_rseq_area *)(void *)(block + AREA_OFFSET);
}

static bool by_lot(void)
{
	return machine.options.threads != 0;
}

unsigned machine_cpu(void)
{
	return machine.current ? (unsigned)machine.current->cpu : 0;
}

uint64_t machine_now(void)
{
	return machine.current ? machine.current->clock : machine.now;
}

struct machine_events machine_events(void)
{
	return machine.events;
}

/* ---- who runs next ---- */

static bool before(const struct thread *a, const struct thread *b)
{
	return a->clock != b->clock ? a->clock < b->clock : a < b;
}

static void heap_push(struct thread *t)
{
	unsigned i = machine.heap_size++;

	for (; i > 0 && before(t, machine.heap[(i - 1) / 2]); i = (i - 1) / 2)
		machine.heap[i] = machine.heap[(i - 1) / 2];
	machine.heap[i] = t;
}

static struct thread *heap_pop(void)
{
	struct thread *first, *last;
	unsigned i = 0, child;

	if (machine.heap_size == 0)
		return NULL;
	first = machine.heap[0];
	last = machine.heap[--machine.heap_size];
	while ((child = 2 * i + 1) < machine.heap_size) {
		if (child + 1 < machine.heap_size && before(machine.heap[child + 1], machine.heap[child]))
			child++;
		if (!before(machine.heap[child], last))
			break;
		machine.heap[i] = machine.heap[child];
		i = child;
	}
	machine.heap[i] = last;
	return first;
}

static void switch_to(struct thread *next)
{
	struct thread *self = machine.current;

	if (next == self)
		return;
	machine.current = next;
	if (swapcontext(self ? &self->context : &machine.outside, next ? &next->context : &machine.outside))
		fail("swapcontext");
}

static void put_on_cpu(struct thread *t, unsigned cpu)
{
	if (t->cpu != (int)cpu)
		machine.events.migrations++;
	t->cpu = (int)cpu;
	area_of(t->block)->cpu_id = cpu;
	area_of(t->block)->cpu_id_start = cpu;
}

/* What the kernel does: the section is not to go on, and whichever was armed is not any more. */
static void interrupt(struct thread *t)
{
	t->interrupted = true;
	area_of(t->block)->rseq_cs = 0;
}

/* The running thread is preempted: another gets its CPU if one waits, else two CPUs exchange theirs. */
static void preempt(void)
{
	struct thread *self = machine.current, *other;
	unsigned cpu = (unsigned)self->cpu;

	machine.events.preemptions++;
	interrupt(self);
	if (machine.nr_waiting) {
		struct thread **place = &machine.waiting[draw(machine.nr_waiting)];

		other = *place;
		*place = self;
		put_on_cpu(other, cpu);
		machine.on_cpu[cpu] = other;
		return;
	}
	other = machine.on_cpu[draw(machine.nr_on_cpu)];
	interrupt(other);
	machine.on_cpu[other->cpu] = self;
	machine.on_cpu[cpu] = other;
	put_on_cpu(self, (unsigned)other->cpu);
	put_on_cpu(other, cpu);
}

/* Let somebody else go on, or the same. */
static void hand_over_by_lot(bool give_up_cpu)
{
	if (give_up_cpu || draw(machine.options.preempt_one_in) == 0)
		preempt();
	switch_to(machine.on_cpu[draw(machine.nr_on_cpu)]);
}

static void hand_over_by_clock(void)
{
	struct thread *self = machine.current;

	if (machine.heap_size == 0 || before(self, machine.heap[0]))
		return;
	heap_push(self);
	switch_to(heap_pop());
}

void machine_work(unsigned ns)
{
	machine.current->clock += ns;
	if (by_lot())
		hand_over_by_lot(false);
	else
		hand_over_by_clock();
}

static void access_line(struct thread *self, const void *address, enum model_kind kind)
{
	if (by_lot()) {
		hand_over_by_lot(false);
	} else {
		while (machine.heap_size && before(machine.heap[0], self) &&
		       (self->clock > machine.heap[0]->clock + MAX_LEAD ||
			!model_hits((unsigned)self->cpu, address, kind)))
			hand_over_by_clock();
	}
	self->clock = model_access((unsigned)self->cpu, self->clock, address, kind);
}

void machine_access(const void *address, unsigned bytes, enum model_kind kind)
{
	struct thread *self = machine.current;
	uintptr_t at = (uintptr_t)address, end = at + bytes;

	if (!self || (at >= (uintptr_t)self->stack && at < (uintptr_t)self->stack + STACK_BYTES))
		return;
	while (at < end) {
		access_line(self, (const void *)at, kind);
		at = (at & ~(uintptr_t)(MODEL_LINE - 1)) + MODEL_LINE;
	}
}

/* ---- threads ---- */

static void thread_main(void)
{
	struct thread *self = machine.current, *next;
	unsigned cpu;

	machine.body((unsigned)(self - machine.threads), machine.ctx);
	self = machine.current;
	self->done = true;
	machine.left--;
	if (self->clock > machine.now)
		machine.now = self->clock;
	if (!by_lot()) {
		next = heap_pop();
		if (!next && machine.left)
			fail("all threads wait");
	} else {
		cpu = (unsigned)self->cpu;
		next = NULL;
		if (machine.nr_waiting) {
			next = machine.waiting[--machine.nr_waiting];
			put_on_cpu(next, cpu);
			machine.on_cpu[cpu] = next;
		} else if (--machine.nr_on_cpu) {
			/* The last CPU's thread moves here, so that those with threads stay the first. */
			next = machine.on_cpu[machine.nr_on_cpu];
			if (next != self) {
				interrupt(next);
				put_on_cpu(next, cpu);
				machine.on_cpu[cpu] = next;
			}
			next = machine.on_cpu[draw(machine.nr_on_cpu)];
		}
	}
	switch_to(next);
	fail("a thread that ended was run");
}

static void prepare(struct thread *t)
{
	t->done = t->interrupted = false;
	t->waits_for = NULL;
	t->clock = machine.now;
	if (getcontext(&t->context))
		fail("getcontext");
	t->context.uc_stack.ss_sp = t->stack;
	t->context.uc_stack.ss_size = STACK_BYTES;
	t->context.uc_link = NULL;
	makecontext(&t->context, thread_main, 0);
}

void machine_run(void (*body)(unsigned thread, void *ctx), void *ctx)
{
	machine.body = body;
	machine.ctx = ctx;
	machine.left = machine.nr_threads;
	machine.heap_size = machine.nr_waiting = machine.nr_on_cpu = 0;
	for (unsigned i = 0; i < machine.nr_threads; i++) {
		struct thread *t = &machine.threads[i];

		prepare(t);
		if (!by_lot()) {
			put_on_cpu(t, i);
			heap_push(t);
		} else if (i < machine.options.cpus) {
			put_on_cpu(t, i);
			machine.on_cpu[machine.nr_on_cpu++] = t;
		} else {
			machine.waiting[machine.nr_waiting++] = t;
		}
	}
	machine.events.migrations = 0;
	switch_to(by_lot() ? machine.on_cpu[0] : heap_pop());
}

/* ---- what the library's sections ask for ---- */

char *pcpu_simulated_thread_pointer(void)
{
	return machine.current ? machine.current->block : outside_block;
}

void pcpu_simulated_begin(void)
{
	if (machine.current)
		machine.current->interrupted = false;
}

static bool store(void *to, const void *from, unsigned bytes)
{
	machine_access(to, bytes, MODEL_WRITE);
	if (machine.current && machine.current->interrupted && !machine.options.unprotected) {
		machine.events.aborts++;
		return false;
	}
	memcpy(to, from, bytes);
	return true;
}

bool pcpu_simulated_store(void *word, uint64_t value)
{
	return store(word, &value, sizeof(value));
}

bool pcpu_simulated_store_pair(void *words, uint64_t first, uint64_t second)
{
	const uint64_t both[2] = {first, second};

	return store(words, both, sizeof(both));
}

/* ---- in place of the C library and liburcu ---- */

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_sched_yield(void);
int __wrap_clock_gettime(clockid_t id, struct timespec *t);
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __real_sched_yield(void);
int __real_clock_gettime(clockid_t id, struct timespec *t);

/* Held or not: the first word, which is 0 in a mutex that nobody holds, of the C library's or ours. */
static int *held(pthread_mutex_t *mutex)
{
	return (int *)(void *)mutex;
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
	struct thread *self = machine.current;

	if (!self)
		return __real_pthread_mutex_lock(mutex);
	for (;;) {
		machine_access(mutex, sizeof(int), MODEL_LOCKED);
		if (!*held(mutex))
			break;
		if (by_lot()) {
			hand_over_by_lot(true);
			continue;
		}
		self->waits_for = mutex;
		if (machine.heap_size == 0)
			fail("all threads wait");
		switch_to(heap_pop());
	}
	*held(mutex) = 1;
	return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	struct thread *self = machine.current;

	if (!self)
		return __real_pthread_mutex_unlock(mutex);
	machine_access(mutex, sizeof(int), MODEL_LOCKED);
	*held(mutex) = 0;
	for (unsigned i = 0; i < machine.nr_threads; i++) {
		struct thread *t = &machine.threads[i];

		if (t->waits_for != mutex)
			continue;
		t->waits_for = NULL;
		if (t->clock < self->clock)
			t->clock = self->clock;
		heap_push(t);
	}
	return 0;
}

int __wrap_sched_yield(void)
{
	if (!machine.current)
		return __real_sched_yield();
	if (by_lot())
		hand_over_by_lot(true);
	else
		machine_work(COST_YIELD);
	return 0;
}

int __wrap_clock_gettime(clockid_t id, struct timespec *t)
{
	uint64_t now;

	/* Looking takes time, so that whoever waits for the clock sees it go on. */
	if (machine.current)
		machine.current->clock += COST_CLOCK;
	else
		machine.now += COST_CLOCK;
	now = machine_now();
	(void)id;
	t->tv_sec = (time_t)(now / 1000000000);
	t->tv_nsec = (long)(now % 1000000000);
	return 0;
}

void pcpu_rcu_read_lock(void)
{
	machine.readers++;
}

void pcpu_rcu_read_unlock(void)
{
	machine.readers--;
}

void pcpu_rcu_synchronize(void)
{
	/* Stricter than need be: waits until nobody reads at all. */
	while (machine.current && machine.readers)
		__wrap_sched_yield();
}

void pcpu_rcu_fork_prepare(void)
{
}

void pcpu_rcu_fork_parent(void)
{
}

void pcpu_rcu_fork_child(void)
{
}

/* ---- the system that the library sees ---- */

static int os_current_cpu(void)
{
	return (int)machine_cpu();
}

static long os_get_affinity(unsigned long *mask, size_t bytes)
{
	(void)mask;
	(void)bytes;
	return -ENOSYS;
}

static long os_nr_configured(void)
{
	return machine.options.cpus;
}

static long os_prefer_node(void *addr, size_t bytes, int node)
{
	(void)addr;
	(void)bytes;
	(void)node;
	return 0;
}

static long os_allowed_nodes(unsigned long *mask, size_t bytes)
{
	memset(mask, 0xff, bytes);
	return 0;
}

/* Every kind there is. In one order of all accesses, ordering them is no work; aborting sections is. */
static long os_membarrier(int command)
{
	if (command == 0)
		return 0xffff;
	machine.events.fences++;
	for (unsigned i = 0; machine.current && i < machine.nr_threads; i++)
		interrupt(&machine.threads[i]);
	if (machine.current)
		machine_work(COST_FENCE);
	return 0;
}

/* root/devices/system/<path>, with the directories on the way; content NULL: take both away again. */
static void fact(const char *root, const char *path, const char *content)
{
	char name[256];
	FILE *file;

	snprintf(name, sizeof(name), "%s/devices/system/%s", root, path);
	if (!content) {
		unlink(name);
		for (char *slash; (slash = strrchr(name, '/')) && slash > name + strlen(root);) {
			*slash = '\0';
			if (rmdir(name))
				break;
		}
		return;
	}
	for (char *slash = name + strlen(root); (slash = strchr(slash + 1, '/'));) {
		*slash = '\0';
		mkdir(name, 0755);
		*slash = '/';
	}
	file = fopen(name, "w");
	if (!file || fputs(content, file) < 0 || fclose(file))
		fail("cannot write the description of the machine");
}

static void list(char *text, size_t size, unsigned first, unsigned last)
{
	if (first == last)
		snprintf(text, size, "%u\n", first);
	else
		snprintf(text, size, "%u-%u\n", first, last);
}

/* Write what /sys would say, or take it away. */
static void describe(const char *root, bool write)
{
	const struct machine_options *o = &machine.options;
	char cpus[32], nodes[32], path[64];

	list(cpus, sizeof(cpus), 0, o->cpus - 1);
	list(nodes, sizeof(nodes), 0, o->nodes - 1);
	fact(root, "cpu/possible", write ? cpus : NULL);
	fact(root, "cpu/online", write ? cpus : NULL);
	fact(root, "node/online", write ? nodes : NULL);
	fact(root, "node/has_memory", write ? nodes : NULL);
	for (unsigned node = 0, first = 0; node < o->nodes; node++) {
		unsigned last = first;

		while (last + 1 < o->cpus && model_node(last + 1) == node)
			last++;
		list(cpus, sizeof(cpus), first, last);
		snprintf(path, sizeof(path), "node/node%u/cpulist", node);
		fact(root, path, write ? cpus : NULL);
		first = last + 1;
	}
}

static void make_threads(void)
{
	const struct machine_options *o = &machine.options;

	if (!machine.stacks) {
		machine.stacks = mmap(NULL, (size_t)MAX_THREADS * STACK_BYTES, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		machine.blocks = mmap(NULL, (size_t)MAX_THREADS * BLOCK_BYTES, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (machine.stacks == MAP_FAILED || machine.blocks == MAP_FAILED)
			fail("out of memory");
	}
	machine.nr_threads = o->threads ? o->threads : o->cpus;
	for (unsigned i = 0; i < machine.nr_threads; i++) {
		machine.threads[i].stack = machine.stacks + (size_t)i * STACK_BYTES;
		machine.threads[i].block = machine.blocks + (size_t)i * BLOCK_BYTES;
		machine.threads[i].cpu = NO_CPU;
	}
	model_name(machine.blocks, (size_t)MAX_THREADS * BLOCK_BYTES, "thread", "rseq");
}

void machine_start(const struct machine_options *options)
{
	static struct pcpu_os os = {
		.current_cpu = os_current_cpu,
		.get_affinity = os_get_affinity,
		.nr_configured = os_nr_configured,
		.prefer_node = os_prefer_node,
		.allowed_nodes = os_allowed_nodes,
		.membarrier = os_membarrier,
		.use_rseq = true,
	};
	static char root[64];

	if (options->cpus == 0 || options->cpus > MODEL_MAX_CPUS || options->nodes == 0 ||
	    options->nodes > MODEL_MAX_NODES || options->cpus % options->nodes ||
	    options->threads > MAX_THREADS || (options->threads && options->threads < options->cpus))
		fail("no such machine");
	machine.options = *options;
	machine.random = options->seed;
	machine.now = 0;
	memset(&machine.events, 0, sizeof(machine.events));
	memset(machine.threads, 0, sizeof(machine.threads));
	model_start(options->cpus, options->nodes, options->pairs);
	make_threads();

	strcpy(root, "/tmp/coherence.XXXXXX");
	if (!mkdtemp(root))
		fail("cannot make a directory in /tmp");
	describe(root, true);
	os.sysfs = root;
	pcpu_region_forget_defaults();
	pcpu_cpu_restart(&os, options->backend);
	describe(root, false);
	rmdir(root);
	if (pcpu_cpu.topology.slots != options->cpus || pcpu_cpu.topology.nodes != options->nodes)
		fail("the library sees another machine");
	if (options->backend != PCPU_BACKEND_ATOMIC && !pcpu_cpu.sections)
		fail("sections do not work");
	memset(&machine.events, 0, sizeof(machine.events));
}
