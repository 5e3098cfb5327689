/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/edge.h"

#include "tools/bench/edge_floor.h"
#include "tools/bench/host.h"
#include "tools/bench/source.h"
#include "tools/bench/tempdir.h"

#include "dataplane/edge/eal.h"
#include "dataplane/edge/port.h"
#include "dataplane/edge/worker.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	SOURCE_IP = 0x0a0a0001,
	SINK_IP = 0x0a0a0002,
	UDP_PORT = 4790,
	SOURCE_SESSION = 0x1111,
	SINK_SESSION = 0x2222,
	START_MS = 60000,
	WARM_UP_MS = 500,
	SETTLE_MS = 50, /* after the workers go on */
	MEMORY_MB = 256,
	SLICES_MAX = 64,
};

/* The path and its floor take turns, so that what slows one slows the other too. */
#define SLICE_S 0.2
#define FLOOR_S 0.05 /* each phase */

#define CAP_BPS UINT64_C(200000000000)

/* What the processes tell the one that measures. */
struct shared {
	struct {
		_Atomic uint64_t bytes, cpu_ns;
		_Atomic int error; /* -errno */
		double floor_ns[FLOOR_PHASES];
		_Atomic uint32_t floors;
	} side[2];                    /* source, sink */
	_Atomic uint32_t floors;      /* how often the workers were asked to make room */
	pthread_barrier_t both_ready; /* for a phase of the floor */
	struct floor_line line;
	double line_ns;
	_Atomic bool stop;
};

struct edge {
	const struct bench_options *o;
	struct shared *shared;
	int me; /* 0 source, 1 sink */
	struct port *port;
	struct worker *worker;
	struct session *session;
	struct floor *floor;
	struct source source; /* entries; transfers are this file's */
	struct tx_transfer *live[SOURCE_LIVE];
	uint32_t ready[SOURCE_LIVE];
	uint64_t order;
	uint8_t *pool, *resume;
	bool up, gone;
};

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void tell(struct edge *e, struct worker_command c)
{
	c.session = e->session;
	while (worker_command(e->worker, &c) < 0 && !atomic_load(&e->shared->stop))
		usleep(50);
}

/* The n-th of the CPUs this process may use. */
static int cpu_nth(int n)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		return -1;
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &set) && n-- == 0)
			return i;
	return -1;
}

/*
 * 2^12 packets: with fewer, each is likely written over while the other CPU still has the old one
 * in its caches, which costs more than all the rest. memif's default is 2^10.
 */
static void device_name(const struct edge *e, int n, const char *dir, char *out, size_t len)
{
	snprintf(out, len, "net_memif%d,role=%s,socket=%s/memif%d,socket-abstract=no,rsize=12", n,
		e->me == 0 ? "client" : "server", dir, n);
}

static int edge_start(struct edge *e, const char *dir)
{
	char device[160], err[256] = "";
	const struct eal_config eal = { .program = "strait-bench", .memory_mb = MEMORY_MB };
	struct port_config port = { .device = device,
		.ip = net_ip4(e->me == 0 ? SOURCE_IP : SINK_IP),
		.prefix_len = 24,
		.udp_port = UDP_PORT,
		.mtu = (uint16_t)e->o->mtu };
	struct worker_config worker = { 0 };
	struct session_config cfg;
	int cpu = cpu_nth(e->me), ret;

	device_name(e, 0, dir, device, sizeof(device));
	ret = eal_start(&eal, err, sizeof(err));
	if (ret == 0) {
		e->port = port_create(&port, err, sizeof(err));
		ret = e->port != NULL ? 0 : -EIO;
	}
	if (ret < 0) {
		fprintf(stderr, "strait-bench: %s\n", err);
		return ret;
	}
	device_name(e, 1, dir, device, sizeof(device));
	e->floor = floor_create(e->o, e->me, device, e->pool);
	if (e->floor == NULL)
		return -EIO;
	worker.port = e->port;
	worker.pin = cpu >= 0;
	worker.cpu = (unsigned int)(cpu >= 0 ? cpu : 0);
	e->worker = worker_create(&worker);
	if (e->worker == NULL)
		return -errno;
	ret = worker_start(e->worker);
	if (ret < 0)
		return ret;
	bench_source_session_config(&cfg, port_symbol_bytes(e->port), 1000000);
	cfg.cap_bps = CAP_BPS;
	cfg.own_session = e->me == 0 ? SOURCE_SESSION : SINK_SESSION;
	cfg.peer_session = e->me == 0 ? SINK_SESSION : SOURCE_SESSION;
	cfg.direction = e->me == 0 ? STRAIT_DIR_INITIATOR : STRAIT_DIR_RESPONDER;
	e->session = session_create(&cfg);
	if (e->session == NULL)
		return -errno;
	tell(e,
		(struct worker_command){ .type = WORKER_SESSION_ADD,
			.session_id = cfg.own_session,
			.endpoint = { .remote_ip = net_ip4(e->me == 0 ? SINK_IP : SOURCE_IP),
				.remote_port = UDP_PORT } });
	return 0;
}

static int transfer_start(struct edge *e, uint32_t i)
{
	const uint32_t n = e->source.objects / SOURCE_LIVE;
	const struct tx_params p = {
		.order = ++e->order * SOURCE_LIVE + i,
		.deadline_ms = e->order,
		.class_ = STRAIT_CLASS_NORMAL,
		.symbol_bytes = port_symbol_bytes(e->port),
		.objects = n,
		.entries = e->source.entries + (size_t)i * n,
		.user = &e->ready[i],
	};

	e->live[i] = tx_transfer_create(&p);
	if (e->live[i] == NULL)
		return -errno;
	e->ready[i] = 0;
	tell(e, (struct worker_command){ .type = WORKER_TX_START, .tx = e->live[i] });
	return 0;
}

static int source_event(struct edge *e, const struct session_event *ev)
{
	uint32_t *ready = ev->tx != NULL ? tx_transfer_user(ev->tx) : NULL;
	uint32_t i = ready != NULL ? (uint32_t)(ready - e->ready) : 0;
	const size_t first = (size_t)i * (e->source.objects / SOURCE_LIVE);

	switch (ev->type) {
	case SESSION_EVENT_UP:
		e->up = true;
		for (i = 0; i < SOURCE_LIVE; i++)
			if (transfer_start(e, i) < 0)
				return -ENOMEM;
		return 0;
	case SESSION_EVENT_TX_WANT:
		for (; *ready < ev->object; (*ready)++)
			tell(e,
				(struct worker_command){ .type = WORKER_TX_READY,
					.tx = ev->tx,
					.object = *ready,
					.data = e->pool + (first + *ready) * SOURCE_OBJECT_BYTES });
		return 0;
	case SESSION_EVENT_TX_OBJECT:
		if (ev->status != STRAIT_STATUS_COMMITTED)
			return atomic_load(&e->shared->stop) ? 0 : -EBADMSG;
		atomic_fetch_add(&e->shared->side[0].bytes, SOURCE_OBJECT_BYTES);
		return 0;
	case SESSION_EVENT_TX_CLOSED:
		tx_transfer_destroy(ev->tx);
		e->live[i] = NULL;
		return atomic_load(&e->shared->stop) ? 0 : transfer_start(e, i);
	case SESSION_EVENT_DEAD:
		return -ETIME;
	default:
		return 0;
	}
}

static int sink_event(struct edge *e, const struct session_event *ev)
{
	struct worker_command c = { .rx = ev->rx };
	uint64_t first;

	switch (ev->type) {
	case SESSION_EVENT_RX_OPEN:
		c.rx = rx_transfer_create(&ev->open, NULL);
		if (c.rx == NULL)
			return -errno;
		c.type = WORKER_RX_ATTACH;
		tell(e, c);
		return 0;
	case SESSION_EVENT_RX_MANIFEST:
		if (rx_transfer_load_objects(ev->rx) < 0)
			return -EPROTO;
		c.type = WORKER_RX_BEGIN;
		tell(e, c);
		c.type = WORKER_RX_PLACE;
		first = rx_transfer_open(ev->rx)->order % SOURCE_LIVE *
			(e->source.objects / SOURCE_LIVE);
		for (c.object = 0; c.object < rx_transfer_objects(ev->rx); c.object++) {
			rx_object_prepare(ev->rx, c.object,
				e->pool + (first + c.object) * SOURCE_OBJECT_BYTES,
				e->resume + (first + c.object) * SESSION_RESUME_BYTES, false);
			tell(e, c);
		}
		return 0;
	case SESSION_EVENT_RX_OBJECT:
		c.type = WORKER_RX_FINISH;
		c.object = ev->object;
		c.status = ev->status;
		tell(e, c);
		if (ev->status != STRAIT_STATUS_COMMITTED)
			return -EBADMSG;
		atomic_fetch_add(&e->shared->side[1].bytes, SOURCE_OBJECT_BYTES);
		return 0;
	case SESSION_EVENT_RX_CLOSED:
		rx_transfer_destroy(ev->rx);
		return 0;
	case SESSION_EVENT_DEAD:
		return -ETIME;
	default:
		return 0;
	}
}

/* Each phase begins on both sides at once. */
static int floor_take(struct edge *e)
{
	int ret, cpu = cpu_nth(e->me);
	bool alone = cpu_nth(1) < 0; /* one CPU for both */
	double line_ns;
	cpu_set_t all;

	worker_stop(e->worker);
	ret = floor_connect(e->floor);
	if (ret == 0 && cpu >= 0) {
		if (sched_getaffinity(0, sizeof(all), &all) < 0)
			return -errno;
		ret = host_pin(cpu);
	}
	if (ret < 0)
		return ret;
	for (int i = 0; i < FLOOR_PHASES; i++) {
		pthread_barrier_wait(&e->shared->both_ready);
		e->shared->side[e->me].floor_ns[i] = floor_run(e->floor, i, FLOOR_S);
	}
	pthread_barrier_wait(&e->shared->both_ready);
	line_ns = alone ? 0 : floor_line_ns(&e->shared->line, e->me);
	if (e->me == 0)
		e->shared->line_ns = line_ns;
	if (cpu >= 0 && sched_setaffinity(0, sizeof(all), &all) < 0)
		return -errno;
	return worker_start(e->worker);
}

static int serve(struct edge *e)
{
	struct pollfd fd = { .fd = worker_event_fd(e->worker), .events = POLLIN };
	uint32_t floors = 0;
	int ret = 0;

	while (ret == 0 && !e->gone) {
		struct worker_event ev;
		bool stop = atomic_load(&e->shared->stop);

		while (ret == 0 && worker_event(e->worker, &ev)) {
			if (ev.type == WORKER_EVENT_SESSION_GONE)
				e->gone = true;
			else if (ev.type == WORKER_EVENT_SESSION)
				ret = e->me == 0 ? source_event(e, &ev.ev) : sink_event(e, &ev.ev);
		}
		atomic_store(&e->shared->side[e->me].cpu_ns, cpu_ns());
		if (stop)
			break;
		if (ret == 0 && atomic_load(&e->shared->floors) != floors) {
			ret = floor_take(e);
			floors++;
			if (ret == 0)
				atomic_store(&e->shared->side[e->me].floors, floors);
			continue;
		}
		if (!worker_event_arm(e->worker))
			poll(&fd, 1, 1);
	}
	return ret;
}

/* The process ends with it, so what the worker had is left to the kernel. */
static int edge_main(struct edge *e, const char *dir)
{
	size_t bytes = (size_t)e->o->pool_mib << 20;
	int ret;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	e->pool = host_region_get(bytes);
	if (e->pool == NULL)
		return -ENOMEM;
	ret = bench_source_init(&e->source, e->pool, bytes, (uint16_t)e->o->symbol_bytes,
		STRAIT_CLASS_NORMAL, e->me == 0);
	e->resume = calloc(e->source.objects, SESSION_RESUME_BYTES);
	if (ret == 0 && e->resume == NULL)
		ret = -ENOMEM;
	if (ret == 0)
		ret = edge_start(e, dir);
	if (ret == 0)
		ret = serve(e);
	if (e->worker != NULL)
		worker_stop(e->worker);
	return ret;
}

static pid_t edge_fork(const struct bench_options *o, struct shared *shared, int me,
	const char *dir)
{
	pid_t pid = fork();

	if (pid == 0) {
		struct edge *e = calloc(1, sizeof(*e));
		int ret = -ENOMEM;

		if (e != NULL) {
			e->o = o;
			e->shared = shared;
			e->me = me;
			ret = edge_main(e, dir);
		}
		atomic_store(&shared->side[me].error, ret);
		_exit(ret == 0 ? 0 : 1);
	}
	return pid;
}

static int failure(struct shared *s)
{
	int ret = atomic_load(&s->side[0].error);

	return ret != 0 ? ret : atomic_load(&s->side[1].error);
}

static int await_flow(struct shared *s)
{
	for (int ms = 0; ms < START_MS; ms += 10) {
		if (failure(s) != 0)
			return failure(s);
		if (atomic_load(&s->side[0].bytes) > 0) {
			usleep(WARM_UP_MS * 1000);
			return 0;
		}
		usleep(10000);
	}
	return -ETIME;
}

/* CPU seconds a GB of payload, which is nanoseconds a byte; source and sink. */
struct cost {
	double part[2][FLOOR_PHASES];
	double line_ns;
};

static int floor_measure(const struct bench_options *o, struct shared *s, struct cost *c)
{
	uint32_t n;

	atomic_store(&s->line.turn, 0);
	atomic_store(&s->line.over, false);
	n = atomic_fetch_add(&s->floors, 1) + 1;

	for (int ms = 0;
		atomic_load(&s->side[0].floors) != n || atomic_load(&s->side[1].floors) != n;
		ms++) {
		if (failure(s) != 0)
			return failure(s);
		if (ms > START_MS)
			return -ETIME;
		usleep(1000);
	}
	c->line_ns = s->line_ns;
	for (int k = 0; k < 2; k++)
		for (int i = 0; i < FLOOR_PHASES; i++)
			c->part[k][i] = s->side[k].floor_ns[i] / o->symbol_bytes;
	usleep(SETTLE_MS * 1000);
	return 0;
}

enum edge_figure {
	F_GBPS,
	F_CORE_GBPS,
	F_CPU,
	F_SOURCE_SHARE,
	F_SINK_SHARE,
	F_SOURCE_CPU,
	F_SINK_CPU,
	F_FLOOR,
	F_FLOOR_SEND,
	F_FLOOR_RECEIVE,
	F_FLOOR_SEAL,
	F_FLOOR_OPEN,
	F_BARE,
	F_BARE_SOURCE,
	F_BARE_SINK,
	F_RATIO,
	F_BARE_RATIO,
	F_LINE,
	FIGURES
};

static const char *const figure_names[FIGURES] = {
	[F_GBPS] = "gbps",
	[F_CORE_GBPS] = "core_gbps",
	[F_CPU] = "cpu_s_per_gb",
	[F_SOURCE_SHARE] = "source_cpu_share",
	[F_SINK_SHARE] = "sink_cpu_share",
	[F_SOURCE_CPU] = "cpu_s_per_gb_source",
	[F_SINK_CPU] = "cpu_s_per_gb_sink",
	[F_FLOOR] = "cpu_s_per_gb_floor",
	[F_FLOOR_SEND] = "cpu_s_per_gb_floor_send",
	[F_FLOOR_RECEIVE] = "cpu_s_per_gb_floor_receive",
	[F_FLOOR_SEAL] = "cpu_s_per_gb_floor_seal",
	[F_FLOOR_OPEN] = "cpu_s_per_gb_floor_open",
	[F_BARE] = "cpu_s_per_gb_bare",
	[F_BARE_SOURCE] = "cpu_s_per_gb_bare_source",
	[F_BARE_SINK] = "cpu_s_per_gb_bare_sink",
	[F_RATIO] = "cpu_ratio",
	[F_BARE_RATIO] = "cpu_ratio_bare",
	[F_LINE] = "line_ns",
};

static int path_measure(struct shared *s, double v[FIGURES])
{
	uint64_t bytes = atomic_load(&s->side[0].bytes), wall = host_now_ns();
	uint64_t cpu[2] = { atomic_load(&s->side[0].cpu_ns), atomic_load(&s->side[1].cpu_ns) };

	usleep((useconds_t)(SLICE_S * 1e6));
	bytes = atomic_load(&s->side[0].bytes) - bytes;
	wall = host_now_ns() - wall;
	for (int k = 0; k < 2; k++)
		cpu[k] = atomic_load(&s->side[k].cpu_ns) - cpu[k];
	if (failure(s) != 0)
		return failure(s);
	if (bytes == 0)
		return -ETIME;
	v[F_GBPS] = (double)bytes * 8 / (double)wall;
	v[F_CORE_GBPS] = (double)bytes * 8 / (double)(cpu[0] > cpu[1] ? cpu[0] : cpu[1]);
	v[F_SOURCE_CPU] = (double)cpu[0] / (double)bytes;
	v[F_SINK_CPU] = (double)cpu[1] / (double)bytes;
	v[F_CPU] = v[F_SOURCE_CPU] + v[F_SINK_CPU];
	v[F_SOURCE_SHARE] = (double)cpu[0] / (double)wall;
	v[F_SINK_SHARE] = (double)cpu[1] / (double)wall;
	return 0;
}

/* A slice of the path beside the mean of the floors before and after it. */
static void floor_values(const struct cost *a, const struct cost *b, double v[FIGURES])
{
	static const enum edge_figure to[2][FLOOR_PHASES] = {
		{ F_FLOOR_SEND, F_FLOOR_SEAL, F_BARE_SOURCE },
		{ F_FLOOR_RECEIVE, F_FLOOR_OPEN, F_BARE_SINK },
	};

	for (int k = 0; k < 2; k++)
		for (int i = 0; i < FLOOR_PHASES; i++)
			v[to[k][i]] = (a->part[k][i] + b->part[k][i]) / 2;
	v[F_FLOOR] = v[F_FLOOR_SEND] + v[F_FLOOR_RECEIVE] + v[F_FLOOR_SEAL] + v[F_FLOOR_OPEN];
	v[F_BARE] = v[F_BARE_SOURCE] + v[F_BARE_SINK];
	v[F_LINE] = (a->line_ns + b->line_ns) / 2;
	v[F_RATIO] = v[F_FLOOR] / v[F_CPU];
	v[F_BARE_RATIO] = v[F_BARE] / v[F_CPU];
}

/* One run: each figure is the median of its slices, ratios too. */
static int measure(const struct bench_options *o, struct shared *s, struct result *r)
{
	static double values[FIGURES][SLICES_MAX];
	uint32_t n = (uint32_t)(o->seconds / SLICE_S + 0.5);
	struct cost before, after;
	int ret = floor_measure(o, s, &before);

	n = n < 1 ? 1 : n > SLICES_MAX ? SLICES_MAX : n;
	for (uint32_t i = 0; i < n && ret == 0; i++) {
		double v[FIGURES];

		ret = path_measure(s, v);
		if (ret == 0)
			ret = floor_measure(o, s, &after);
		if (ret < 0)
			break;
		floor_values(&before, &after, v);
		before = after;
		for (int k = 0; k < FIGURES; k++)
			values[k][i] = v[k];
	}
	if (ret < 0)
		return ret;
	for (int k = 0; k < FIGURES; k++)
		result_add(r, figure_names[k], result_middle(values[k], n));
	/* Quartiles as a share of the median: above 0.2 or so, measure again. */
	result_add(r, "cpu_spread", result_spread(values[F_CPU], n));
	result_add(r, "cpu_floor_spread", result_spread(values[F_FLOOR], n));
	result_add(r, "cpu_ratio_spread", result_spread(values[F_RATIO], n));
	return 0;
}

/* The floor's phases begin together in both processes. */
static int barrier_init(struct shared *s)
{
	pthread_barrierattr_t a;
	int ret = -pthread_barrierattr_init(&a);

	if (ret < 0)
		return ret;
	ret = -pthread_barrierattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	if (ret == 0)
		ret = -pthread_barrier_init(&s->both_ready, &a, 2);
	pthread_barrierattr_destroy(&a);
	return ret;
}

int edge_bench_run(const struct bench_options *o, struct result *r)
{
	struct shared *s =
		mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char dir[TEMPDIR_BYTES];
	pid_t pid[2] = { -1, -1 };
	int ret = 0;

	if (s == MAP_FAILED)
		return -ENOMEM;
	ret = barrier_init(s);
	if (ret == 0)
		ret = tempdir_create(dir);
	if (ret < 0)
		goto unmap;
	for (int me = 1; me >= 0; me--) { /* who listens comes first */
		pid[me] = edge_fork(o, s, me, dir);
		if (pid[me] < 0)
			ret = -errno;
	}
	if (ret == 0)
		ret = await_flow(s);
	for (uint32_t i = 0; i < o->runs && ret == 0; i++)
		ret = measure(o, s, r);
	atomic_store(&s->stop, true);
	for (int me = 0; me < 2; me++) {
		if (pid[me] <= 0)
			continue;
		if (ret < 0)
			kill(pid[me], SIGKILL);
		waitpid(pid[me], NULL, 0);
	}
	tempdir_remove();
unmap:
	munmap(s, sizeof(*s));
	return ret;
}
