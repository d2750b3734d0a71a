// SPDX-License-Identifier: MIT
// google-benchmark behind a C interface: see shim.h. The only C++ of the project.
#include "shim.h"

#include <benchmark/benchmark.h>

#include <mutex>

namespace
{

// google-benchmark calls its own set-up functions without an argument of ours, and has only one barrier, at
// the start of the loop. So the first thread to come sets up, and the last to leave tears down; nobody leaves
// before all have come, for the loop begins at that barrier.
class Attendance
{
	std::mutex lock;
	unsigned present = 0;

      public:
	void enter(const bench_op *op, unsigned threads)
	{
		std::lock_guard<std::mutex> guard(lock);
		if (!present++ && op->setup)
			op->setup(op->ctx, threads);
	}

	void leave(const bench_op *op, unsigned threads)
	{
		std::lock_guard<std::mutex> guard(lock);
		if (!--present && op->teardown)
			op->teardown(op->ctx, threads);
	}
};

void run(benchmark::State &state, const bench_op *op, uint64_t batch, Attendance *attendance)
{
	const unsigned thread = static_cast<unsigned>(state.thread_index());
	const unsigned threads = static_cast<unsigned>(state.threads());
	const bench_loop loop = op->loops[0];

	attendance->enter(op, threads);
	if (op->enter)
		op->enter(op->ctx, thread);
	while (state.KeepRunningBatch(static_cast<benchmark::IterationCount>(batch)))
		loop(op->ctx, batch, thread);
	if (op->leave)
		op->leave(op->ctx, thread);
	attendance->leave(op, threads);

	const double items = static_cast<double>(state.iterations()) * (op->items ? op->items : 1);
	state.SetItemsProcessed(static_cast<int64_t>(items));
	state.counters["per_thread"] =
		benchmark::Counter(items, benchmark::Counter::kAvgThreadsRate | benchmark::Counter::kInvert);
}

} // namespace

extern "C" void shim_register(const bench_op *op, unsigned threads, uint64_t batch)
{
	// Lives as long as the registration: until the program ends.
	Attendance *attendance = new Attendance;

	if (!batch)
		batch = 4096;
	benchmark::RegisterBenchmark(op->name, run, op, batch, attendance)
		->Threads(static_cast<int>(threads))
		->UseRealTime();
}

extern "C" int shim_main(int argc, char **argv)
{
	benchmark::Initialize(&argc, argv);
	if (benchmark::ReportUnrecognizedArguments(argc, argv))
		return 2;
	benchmark::RunSpecifiedBenchmarks();
	benchmark::Shutdown();
	return 0;
}
