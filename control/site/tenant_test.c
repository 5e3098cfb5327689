/* SPDX-License-Identifier: Apache-2.0 */
#include "control/site/tenant.h"

#include <strait/strait.h>

#include <errno.h>
#include <grp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { VLLM = 4001, OTHER = 4002, INFERENCE = 5001 };

static struct site_tenant_config *tenant_make(unsigned int users, unsigned int groups)
{
	static char user[] = "4001", group[] = "5001";
	static char *names[] = { user }, *groups_of[] = { group };
	static struct site_tenant_config t;
	const char *bad;

	t = (struct site_tenant_config){ .users = names,
		.users_count = users,
		.groups = groups_of,
		.groups_count = groups };
	assert_int_equal(tenant_resolve(&t, &bad), 0);
	return &t;
}

static bool admits(const struct site_tenant_config *t, uid_t uid, gid_t gid, gid_t more)
{
	const gid_t groups[] = { 100, more };
	const struct exist_peer who = { 1, uid, gid, groups, 2 };

	return tenant_admits(t, &who);
}

static void tenant_is_its_users_and_who_is_in_its_groups(void **state)
{
	struct site_tenant_config *t = tenant_make(1, 1);

	(void)state;
	assert_true(admits(t, VLLM, 9, 9));
	assert_true(admits(t, OTHER, INFERENCE, 9));
	assert_true(admits(t, OTHER, 9, INFERENCE));
	assert_false(admits(t, OTHER, 9, 9));
	/* numbers of users and of groups are two things */
	assert_false(admits(t, INFERENCE, VLLM, 9));
	assert_int_equal(tenant_socket_mode(t), 0666);
	tenant_release(t);
}

static void without_users_and_groups_it_is_root_and_the_master_alone(void **state)
{
	struct site_tenant_config *t = tenant_make(0, 0);

	(void)state;
	assert_true(admits(t, 0, 9, 9));
	assert_true(admits(t, geteuid(), 9, 9));
	assert_false(admits(t, VLLM, 0, 0));
	assert_int_equal(tenant_socket_mode(t), 0600);
	tenant_release(t);
}

static void names_are_numbers_or_what_this_machine_knows(void **state)
{
	static const char *const unknown[] = { "no-such-user", "-1", "4294967295", "12x", "1 " };
	const char *bad = NULL;

	(void)state;
	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
		char *name = strdup(unknown[i]);
		struct site_tenant_config t = { .users = &name, .users_count = 1 };

		assert_int_equal(tenant_resolve(&t, &bad), -EINVAL);
		assert_string_equal(bad, unknown[i]);
		tenant_release(&t);
		free(name);
	}
}

/* ---- processes of other users, which only root can be ---- */

struct fixture {
	char dir[64], path[96];
	struct site_tenant_config *t;
	struct index *index;
	struct existence *e;
	struct exist_server *server;
};

static bool admit(const struct exist_peer *who, struct digest_key *out, void *ctx)
{
	const struct fixture *f = ctx;

	*out = f->t->key;
	return tenant_admits(f->t, who);
}

/* What a process of that user and group gets: 0 or errno of strait_exist_open(). */
static int open_as(const struct fixture *f, uid_t uid, gid_t gid, gid_t more)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		struct strait_exist *x = NULL;

		errno = EPERM;
		if (setgroups(1, &more) == 0 && setgid(gid) == 0 && setuid(uid) == 0)
			x = strait_exist_open(f->path, 5000);
		_exit(x == NULL ? errno : strait_exist_is_mapped(x) ? 0 : EPROTO);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return WEXITSTATUS(status);
}

static void kernel_says_who_connects(void **state)
{
	struct fixture f = { .t = tenant_make(1, 1) };
	struct exist_server_config cfg = { .path = f.path,
		.mode = tenant_socket_mode(f.t),
		.threads = 1,
		.clients_max = 8,
		.tenant = admit,
		.ctx = &f };
	struct exist_server_stats st;
	char err[128];

	(void)state;
	if (geteuid() != 0)
		skip();
	snprintf(f.dir, sizeof(f.dir), "/tmp/strait-tenant-XXXXXX");
	assert_non_null(mkdtemp(f.dir));
	assert_int_equal(chmod(f.dir, 0755), 0);
	snprintf(f.path, sizeof(f.path), "%s/sock", f.dir);
	f.index = index_create_shared(0, 0, EXISTENCE_SHARED);
	f.e = malloc(sizeof(*f.e));
	assert_true(f.index != NULL && f.e != NULL);
	existence_init(f.e, f.index, INDEX_PRESENT_MASK, UINT64_MAX);
	existence_beat(f.e, UINT64_MAX / 2);
	f.server = exist_server_start(f.e, &cfg, err, sizeof(err));
	assert_non_null(f.server);
	assert_int_equal(open_as(&f, VLLM, 9, 9), 0);
	assert_int_equal(open_as(&f, OTHER, INFERENCE, 9), 0);
	assert_int_equal(open_as(&f, OTHER, 9, INFERENCE), 0);
	assert_int_equal(open_as(&f, OTHER, 9, 9), EACCES);
	exist_server_stats_get(f.server, &st);
	assert_int_equal(st.refused, 1);
	assert_int_equal(st.mapped, 3);
	exist_server_stop(f.server);
	index_destroy(f.index);
	free(f.e);
	tenant_release(f.t);
	rmdir(f.dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tenant_is_its_users_and_who_is_in_its_groups),
		cmocka_unit_test(without_users_and_groups_it_is_root_and_the_master_alone),
		cmocka_unit_test(names_are_numbers_or_what_this_machine_knows),
		cmocka_unit_test(kernel_says_who_connects),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
