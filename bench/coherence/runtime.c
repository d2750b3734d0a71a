/* SPDX-License-Identifier: MIT */
/*
 * What -fsanitize=thread makes the compiler call, linked in place of ThreadSanitizer.
 *
 * Before a plain access the compiler calls and then makes it itself; atomic operations it leaves to us. Only
 * one simulated thread runs at a time and it is not left between the call and the access, so plain operations
 * do, and all orders are the sequentially consistent one.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "machine.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#pragma GCC diagnostic ignored "-Wpedantic" /* 128 bits */

void __tsan_init(void)
{
}

void __tsan_func_entry(void *pc)
{
	(void)pc;
}

void __tsan_func_exit(void)
{
}

#define PLAIN(size)                                                                                          \
	void __tsan_read##size(void *p)                                                                      \
	{                                                                                                    \
		machine_access(p, size, MODEL_READ);                                                         \
	}                                                                                                    \
	void __tsan_write##size(void *p)                                                                     \
	{                                                                                                    \
		machine_access(p, size, MODEL_WRITE);                                                        \
	}                                                                                                    \
	void __tsan_unaligned_read##size(void *p)                                                            \
	{                                                                                                    \
		machine_access(p, size, MODEL_READ);                                                         \
	}                                                                                                    \
	void __tsan_unaligned_write##size(void *p)                                                           \
	{                                                                                                    \
		machine_access(p, size, MODEL_WRITE);                                                        \
	}                                                                                                    \
	void __tsan_read_write##size(void *p)                                                                \
	{                                                                                                    \
		machine_access(p, size, MODEL_READ);                                                         \
		machine_access(p, size, MODEL_WRITE);                                                        \
	}                                                                                                    \
	void __tsan_unaligned_read_write##size(void *p)                                                      \
	{                                                                                                    \
		machine_access(p, size, MODEL_READ);                                                         \
		machine_access(p, size, MODEL_WRITE);                                                        \
	}

PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)

void __tsan_read_range(void *p, size_t bytes)
{
	machine_access(p, (unsigned)bytes, MODEL_READ);
}

void __tsan_write_range(void *p, size_t bytes)
{
	machine_access(p, (unsigned)bytes, MODEL_WRITE);
}

void *__tsan_memcpy(void *to, const void *from, size_t bytes)
{
	machine_access(from, (unsigned)bytes, MODEL_READ);
	machine_access(to, (unsigned)bytes, MODEL_WRITE);
	return memcpy(to, from, bytes);
}

void *__tsan_memmove(void *to, const void *from, size_t bytes)
{
	machine_access(from, (unsigned)bytes, MODEL_READ);
	machine_access(to, (unsigned)bytes, MODEL_WRITE);
	return memmove(to, from, bytes);
}

void *__tsan_memset(void *to, int value, size_t bytes)
{
	machine_access(to, (unsigned)bytes, MODEL_WRITE);
	return memset(to, value, bytes);
}

#define ATOMIC_CHANGE(bits, type, name, change)                                                              \
	type __tsan_atomic##bits##_##name(volatile type *p, type n, int order)                               \
	{                                                                                                    \
		type old;                                                                                    \
                                                                                                             \
		(void)order;                                                                                 \
		machine_access((const void *)(uintptr_t)p, sizeof(*p), MODEL_LOCKED);                        \
		old = *p;                                                                                    \
		*p = (type)(change);                                                                         \
		return old;                                                                                  \
	}

#define ATOMIC(bits, type)                                                                                   \
	type __tsan_atomic##bits##_load(const volatile type *p, int order)                                   \
	{                                                                                                    \
		(void)order;                                                                                 \
		machine_access((const void *)(uintptr_t)p, sizeof(*p), MODEL_READ);                          \
		return *p;                                                                                   \
	}                                                                                                    \
	void __tsan_atomic##bits##_store(volatile type *p, type n, int order)                                \
	{                                                                                                    \
		/* A sequentially consistent store is an exchange on x86. */                                 \
		machine_access((const void *)(uintptr_t)p, sizeof(*p),                                       \
			       order == __ATOMIC_SEQ_CST ? MODEL_LOCKED : MODEL_WRITE);                      \
		*p = n;                                                                                      \
	}                                                                                                    \
	ATOMIC_CHANGE(bits, type, exchange, n)                                                               \
	ATOMIC_CHANGE(bits, type, fetch_add, old + n)                                                        \
	ATOMIC_CHANGE(bits, type, fetch_sub, old - n)                                                        \
	ATOMIC_CHANGE(bits, type, fetch_and, old &n)                                                         \
	ATOMIC_CHANGE(bits, type, fetch_or, old | n)                                                         \
	ATOMIC_CHANGE(bits, type, fetch_xor, old ^ n)                                                        \
	ATOMIC_CHANGE(bits, type, fetch_nand, ~(old & n))                                                    \
	type __tsan_atomic##bits##_compare_exchange_val(volatile type *p, type expected, type desired,       \
							int order, int failure)                              \
	{                                                                                                    \
		type old;                                                                                    \
                                                                                                             \
		(void)order;                                                                                 \
		(void)failure;                                                                               \
		machine_access((const void *)(uintptr_t)p, sizeof(*p), MODEL_LOCKED);                        \
		old = *p;                                                                                    \
		if (old == expected)                                                                         \
			*p = desired;                                                                        \
		return old;                                                                                  \
	}                                                                                                    \
	int __tsan_atomic##bits##_compare_exchange_strong(volatile type *p, type *expected, type desired,    \
							  int order, int failure)                            \
	{                                                                                                    \
		type old =                                                                                   \
			__tsan_atomic##bits##_compare_exchange_val(p, *expected, desired, order, failure);   \
		bool same = old == *expected;                                                                \
                                                                                                             \
		*expected = old;                                                                             \
		return same;                                                                                 \
	}                                                                                                    \
	int __tsan_atomic##bits##_compare_exchange_weak(volatile type *p, type *expected, type desired,      \
							int order, int failure)                              \
	{                                                                                                    \
		return __tsan_atomic##bits##_compare_exchange_strong(p, expected, desired, order, failure);  \
	}

ATOMIC(8, uint8_t)
ATOMIC(16, uint16_t)
ATOMIC(32, uint32_t)
ATOMIC(64, uint64_t)
#ifdef __SIZEOF_INT128__
ATOMIC(128, unsigned __int128)
#endif

void __tsan_atomic_thread_fence(int order)
{
	(void)order;
}

void __tsan_atomic_signal_fence(int order)
{
	(void)order;
}
