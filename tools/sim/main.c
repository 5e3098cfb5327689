/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sim/options.h"
#include "tools/sim/report.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * strait-sim: seeds are dealt to worker processes through a shared counter; each puts its result
 * into shared memory and its index into a pipe, and the parent prints them in the order of the
 * seeds.
 */
struct shared {
	_Atomic uint64_t next;
	struct sim_result results[];
};

static void work(const struct sim_options *o, struct shared *sh, FILE *const files[2], int out)
{
	for (;;) {
		uint64_t i = atomic_fetch_add(&sh->next, 1);
		struct plan p;

		if (i >= o->seeds)
			return;
		sim_options_plan(o, o->seed + i, &p);
		p.csv = i == 0 ? files[0] : NULL;
		p.plot = i == 0 ? files[1] : NULL;
		sim_run(&p, &sh->results[i]);
		if (write(out, &i, sizeof(i)) != sizeof(i))
			return;
	}
}

static void print_repeat(int argc, char **argv, uint64_t seed)
{
	fprintf(stderr, "repeat: strait-sim");
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--seed") == 0 || strcmp(argv[i], "--seeds") == 0 ||
			strcmp(argv[i], "--jobs") == 0)
			i++;
		else
			fprintf(stderr, " %s", argv[i]);
	}
	fprintf(stderr, " --seed %" PRIu64 "\n", seed);
}

static void print_next(struct sim_report *r, const struct sim_result *s, int argc, char **argv)
{
	sim_report_result(r, s);
	if (!s->ok) {
		fprintf(stderr, "seed %" PRIu64 ": %s\n", s->seed, s->error);
		print_repeat(argc, argv, s->seed);
	}
}

/* Print what workers finish, in order; what a worker died over counts as failed. */
static void collect(const struct sim_options *o, struct shared *sh, int in, struct sim_report *r,
	bool *done, int argc, char **argv)
{
	uint64_t i;
	ssize_t n;

	for (;;) {
		n = read(in, &i, sizeof(i));
		if (n < 0 && errno == EINTR)
			continue;
		if (n != sizeof(i) || i >= o->seeds)
			break;
		done[i] = true;
		while (r->n < o->seeds && done[r->n])
			print_next(r, &sh->results[r->n], argc, argv);
	}
	while (r->n < o->seeds) {
		struct sim_result *s = &sh->results[r->n];

		if (!done[r->n]) {
			memset(s, 0, sizeof(*s));
			s->seed = o->seed + r->n;
			snprintf(s->error, sizeof(s->error), "the process that ran it died");
		}
		print_next(r, s, argc, argv);
	}
}

static uint32_t job_count(const struct sim_options *o)
{
	long n = o->jobs ? (long)o->jobs : sysconf(_SC_NPROCESSORS_ONLN);

	if (n < 1)
		n = 1;
	return (uint64_t)n > o->seeds ? (uint32_t)o->seeds : (uint32_t)n;
}

static int run(const struct sim_options *o, struct shared *sh, FILE *const files[2], int argc,
	char **argv)
{
	struct sim_report r = { .out = stdout, .json = o->json, .counters = o->counters };
	bool *done = calloc(o->seeds, sizeof(*done));
	uint32_t jobs = job_count(o);
	int fds[2];

	r.results = sh->results;
	if (!done || pipe(fds) < 0) {
		perror("strait-sim");
		free(done);
		return 1;
	}
	fflush(stdout);
	for (uint32_t i = 0; i < jobs; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			close(fds[0]);
			work(o, sh, files, fds[1]);
			_exit(0);
		}
		if (pid < 0) {
			perror("strait-sim: fork");
			break;
		}
	}
	close(fds[1]);
	collect(o, sh, fds[0], &r, done, argc, argv);
	close(fds[0]);
	while (wait(NULL) > 0)
		;
	sim_report_summary(&r);
	free(done);
	return r.ok == r.n ? 0 : 1;
}

int main(int argc, char **argv)
{
	struct sim_options o;
	struct shared *sh;
	FILE *files[2]; /* CSV and picture */
	char error[200] = "";
	size_t size;
	int rc;

	if (sim_options_parse(&o, argc, argv, error, sizeof(error)) < 0) {
		fprintf(stderr, "strait-sim: %s\n", error);
		return 2;
	}
	if (o.help) {
		sim_options_help();
		return 0;
	}
	if (o.describe) {
		for (uint64_t i = 0; i < o.seeds; i++) {
			struct plan p;

			sim_options_plan(&o, o.seed + i, &p);
			plan_print(&p, stdout);
		}
		return 0;
	}
	for (int i = 0; i < 2; i++) {
		const char *name = i == 0 ? o.csv : o.plot;

		files[i] = name ? fopen(name, "w") : NULL;
		if (name && !files[i]) {
			fprintf(stderr, "strait-sim: %s: %s\n", name, strerror(errno));
			return 2;
		}
	}
	/* Objects are freed and allocated all the time: keep their pages. */
	mallopt(M_MMAP_THRESHOLD, 1 << 30);
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	size = sizeof(*sh) + o.seeds * sizeof(sh->results[0]);
	sh = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (sh == MAP_FAILED) {
		perror("strait-sim");
		return 1;
	}
	rc = run(&o, sh, files, argc, argv);
	munmap(sh, size);
	return rc;
}
