/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/edge.h"

#include "tools/bench/host.h"
#include "tools/bench/source.h"
#include "tools/bench/tempdir.h"

#include "dataplane/edge/eal.h"
#include "dataplane/edge/port.h"
#include "dataplane/edge/worker.h"

#include <errno.h>
#include <poll.h>
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
	MEMORY_MB = 256,
};

#define CAP_BPS UINT64_C(200000000000)

/* What the processes tell the one that measures. */
struct shared {
	struct {
		_Atomic uint64_t bytes, cpu_ns;
		_Atomic int error; /* -errno */
	} side[2];                 /* source, sink */
	_Atomic bool stop;
};

struct edge {
	const struct bench_options *o;
	struct shared *shared;
	int me; /* 0 source, 1 sink */
	struct port *port;
	struct worker *worker;
	struct session *session;
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

static int edge_start(struct edge *e, const char *socket)
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

	/*
	 * 2^12 packets: with fewer, each is likely written over while the other CPU still has the
	 * old one in its caches, which costs more than all the rest. memif's default is 2^10.
	 */
	snprintf(device, sizeof(device), "net_memif0,role=%s,socket=%s,socket-abstract=no,rsize=12",
		e->me == 0 ? "client" : "server", socket);
	ret = eal_start(&eal, err, sizeof(err));
	if (ret == 0) {
		e->port = port_create(&port, err, sizeof(err));
		ret = e->port != NULL ? 0 : -EIO;
	}
	if (ret < 0) {
		fprintf(stderr, "strait-bench: %s\n", err);
		return ret;
	}
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

static int serve(struct edge *e)
{
	struct pollfd fd = { .fd = worker_event_fd(e->worker), .events = POLLIN };
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
		if (!worker_event_arm(e->worker))
			poll(&fd, 1, 1);
	}
	return ret;
}

/* The process ends with it, so what the worker had is left to the kernel. */
static int edge_main(struct edge *e, const char *socket)
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
		ret = edge_start(e, socket);
	if (ret == 0)
		ret = serve(e);
	if (e->worker != NULL)
		worker_stop(e->worker);
	return ret;
}

static pid_t edge_fork(const struct bench_options *o, struct shared *shared, int me,
	const char *socket)
{
	pid_t pid = fork();

	if (pid == 0) {
		struct edge *e = calloc(1, sizeof(*e));
		int ret = -ENOMEM;

		if (e != NULL) {
			e->o = o;
			e->shared = shared;
			e->me = me;
			ret = edge_main(e, socket);
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

static int measure(const struct bench_options *o, struct shared *s, struct result *r)
{
	for (uint32_t i = 0; i < o->runs; i++) {
		uint64_t bytes = atomic_load(&s->side[0].bytes), wall = host_now_ns();
		uint64_t cpu[2] = { atomic_load(&s->side[0].cpu_ns),
			atomic_load(&s->side[1].cpu_ns) };
		double busier;

		usleep((useconds_t)(o->seconds * 1e6));
		bytes = atomic_load(&s->side[0].bytes) - bytes;
		wall = host_now_ns() - wall;
		for (int k = 0; k < 2; k++)
			cpu[k] = atomic_load(&s->side[k].cpu_ns) - cpu[k];
		if (failure(s) != 0)
			return failure(s);
		if (bytes == 0)
			return -ETIME;
		busier = (double)(cpu[0] > cpu[1] ? cpu[0] : cpu[1]);
		result_add(r, "gbps", (double)bytes * 8 / (double)wall);
		result_add(r, "core_gbps", (double)bytes * 8 / busier);
		result_add(r, "cpu_s_per_gb", (double)(cpu[0] + cpu[1]) / (double)bytes);
		result_add(r, "source_cpu_share", (double)cpu[0] / (double)wall);
		result_add(r, "sink_cpu_share", (double)cpu[1] / (double)wall);
	}
	return 0;
}

int edge_bench_run(const struct bench_options *o, struct result *r)
{
	struct shared *s =
		mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char dir[TEMPDIR_BYTES], socket[TEMPDIR_BYTES + 8];
	pid_t pid[2] = { -1, -1 };
	int ret = 0;

	if (s == MAP_FAILED)
		return -ENOMEM;
	ret = tempdir_create(dir);
	if (ret < 0)
		goto unmap;
	snprintf(socket, sizeof(socket), "%s/memif", dir);
	for (int me = 1; me >= 0; me--) { /* who listens comes first */
		pid[me] = edge_fork(o, s, me, socket);
		if (pid[me] < 0)
			ret = -errno;
	}
	if (ret == 0)
		ret = await_flow(s);
	if (ret == 0)
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
