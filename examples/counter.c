/* SPDX-License-Identifier: MIT */
/* One number counted from four threads; the first program of README.md. */

#include <pcpu_stat/pcpu_stat.h>
#include <pthread.h>
#include <stdio.h>

static struct pcpu_counter requests = PCPU_COUNTER_INIT;

static void *serve(void *arg)
{
	for (int i = 0; i < 1000000; i++)
		pcpu_counter_inc(&requests); /* writes memory of this CPU alone */
	return arg;
}

int main(void)
{
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, serve, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	printf("%lld requests\n", (long long)pcpu_counter_sum(&requests));
}
