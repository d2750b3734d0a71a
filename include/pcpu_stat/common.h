/* SPDX-License-Identifier: MIT */
/**
 * @file common.h
 * What every public header needs: linkage, branch hints, and the decision between inline and function form.
 */
#ifndef PCPU_STAT_COMMON_H
#define PCPU_STAT_COMMON_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define PCPU_BEGIN_DECLS extern "C" {
#define PCPU_END_DECLS	 }
#else
#define PCPU_BEGIN_DECLS
#define PCPU_END_DECLS
#endif

/** Symbols of the shared library; everything else is hidden. */
#define PCPU_API __attribute__((visibility("default")))

#define pcpu_likely(x)	 __builtin_expect(!!(x), 1)
#define pcpu_unlikely(x) __builtin_expect(!!(x), 0)

/*
 * ThreadSanitizer and MemorySanitizer cannot see stores made by assembly. Instrumented code calls the
 * function form, whose accesses are the library's own affair.
 */
#if defined(__SANITIZE_THREAD__)
#define PCPU_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define PCPU_SANITIZED 1
#endif
#endif
#ifndef PCPU_SANITIZED
#define PCPU_SANITIZED 0
#endif

/** 1 when the update path is compiled into the caller: asked for, and there is a section for this machine. */
#if defined(PCPU_STAT_INLINE) && !PCPU_SANITIZED && defined(__x86_64__) && !defined(__ILP32__)
#define PCPU_INLINE_UPDATES 1
#else
#define PCPU_INLINE_UPDATES 0
#endif

#endif /* PCPU_STAT_COMMON_H */
