/* SPDX-License-Identifier: MIT */
/** @file names.h Tells the model what the library's memory is. */
#ifndef PCPU_BENCH_COHERENCE_NAMES_H
#define PCPU_BENCH_COHERENCE_NAMES_H

struct pcpu_counter;
struct pcpu_node;

/** The library's own facts, read by slow paths. After machine_start. */
void name_facts(void);
void name_counter(const struct pcpu_counter *c);
/** A tree's node, as "node" if updates go there and as "ancestor" otherwise; and with the root its tree. */
void name_node(const struct pcpu_node *node, bool target);

#endif /* PCPU_BENCH_COHERENCE_NAMES_H */
