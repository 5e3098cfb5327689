/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/config.h"

#include "control/base/config_where.h"
#include "control/base/file.h"
#include "control/base/name.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct item {
	char *name;
	uint32_t size;
};

struct root {
	char *listen;
	struct item *items;
	unsigned int items_count;
	bool flag;
};

static const cyaml_schema_field_t item_fields[] = {
	CYAML_FIELD_STRING_PTR("name", CYAML_FLAG_POINTER, struct item, name, 1, 20),
	CYAML_FIELD_UINT("size", CYAML_FLAG_OPTIONAL, struct item, size),
	CYAML_FIELD_END,
};
static const cyaml_schema_value_t item_value = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct item, item_fields),
};
static const cyaml_schema_field_t root_fields[] = {
	CYAML_FIELD_STRING_PTR("listen", CYAML_FLAG_POINTER, struct root, listen, 1, 20),
	CYAML_FIELD_SEQUENCE("items", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct root, items,
		&item_value, 0, 100),
	CONFIG_FIELD_BOOL("flag", CYAML_FLAG_OPTIONAL, struct root, flag),
	CYAML_FIELD_END,
};
static const cyaml_schema_value_t schema = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct root, root_fields),
};

static char err[400];

static void good_text_is_loaded(void **state)
{
	static const char text[] =
		"listen: here\nitems:\n- name: x\n  size: 5\n- { name: y }\nflag: true\n";
	struct root *r = NULL;
	char *printed;

	(void)state;
	assert_int_equal(config_load_text("f", text, strlen(text), &schema, (void **)&r, err,
				 sizeof(err)),
		0);
	assert_string_equal(r->listen, "here");
	assert_int_equal(r->items_count, 2);
	assert_int_equal(r->items[0].size, 5);
	assert_true(r->flag);
	printed = config_print(&schema, r);
	assert_non_null(strstr(printed, "name: y"));
	assert_non_null(strstr(printed, "flag: true"));
	free(printed);
	config_free(&schema, r);
}

static void only_words_for_true_and_false_are_booleans(void **state)
{
	static const struct {
		const char *word;
		int want; /* -1: refused */
	} cases[] = { { "true", 1 }, { "yes", 1 }, { "on", 1 }, { "True", 1 }, { "false", 0 },
		{ "no", 0 }, { "OFF", 0 }, { "flase", -1 }, { "truth", -1 }, { "0", -1 },
		{ "1", -1 }, { "\"\"", -1 }, { "fAlse", -1 }, { "null", -1 } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct root *r = NULL;
		char text[64];
		int rc;

		snprintf(text, sizeof(text), "listen: a\nflag: %s\n", cases[i].word);
		rc = config_load_text("f", text, strlen(text), &schema, (void **)&r, err,
			sizeof(err));
		if (cases[i].want < 0) {
			assert_int_equal(rc, -EINVAL);
			if (strncmp(err, "f:2: flag: not true or false: ", 30) != 0)
				fail_msg("%s", err);
			continue;
		}
		assert_int_equal(rc, 0);
		assert_int_equal(r->flag, cases[i].want);
		config_free(&schema, r);
	}
}

static void every_error_names_file_and_line(void **state)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{ "listen: a\n\nlissten: b\n", "f:3: unexpected key \"lissten\"" },
		{ "listen: a\nitems:\n- name: x\n- name: y\n  sizes: 3\n",
			"f:5: unexpected key \"sizes\" in items[1]" },
		{ "listen: a\nitems:\n- name: x\n  size: big\n", "f:4: items[0].size: " },
		{ "listen: a\nitems:\n- size: 1\n", "f:3: items[0]: key \"name\" is missing" },
		{ "listen: a\nflag: false\nlisten: b\n", "f:3: listen: given a second time" },
		{ "listen: a\nitems: 7\n", "f:2: items: " },
		{ "listen:\n  - a\n", "f:1: listen: " },
		{ "listen: a\nitems: [\n", "f:3: not valid YAML: " },
		{ "listen: &x a\nitems:\n- name: *x\n", "f:3: YAML aliases are not accepted" },
		{ "listen: a\n---\nlisten: b\n", "f:2: a second YAML document" },
		{ "listen: \"a\\0b\"\n", "f:1: a value has a NUL" },
		{ "listen: a\nitems: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", "f:2: too many lists" },
		{ "", "f:1: the file is empty" },
		{ "# only a comment\n", "f:1: the file is empty" },
		{ "- a\n", "f:1: " },
		{ "flag: true\n", "f:1: key \"listen\" is missing" },
		{ "listen: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n", "f:1: listen: " },
		{ "listen: a\n\tflag: true\n", "f:2: " },
	};
	void *out;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *t = cases[i].text;

		assert_int_equal(config_load_text("f", t, strlen(t), &schema, &out, err,
					 sizeof(err)),
			-EINVAL);
		if (strncmp(err, cases[i].want, strlen(cases[i].want)) != 0)
			fail_msg("case %zu: \"%s\", expected \"%s\"", i, err, cases[i].want);
	}
}

static void random_text_never_harms(void **state)
{
	static const char alphabet[] = "listen: a\n-[]{}&*!|>'\"%@#,?:x \t0";
	char text[200];
	void *out;

	(void)state;
	srand(3);
	for (int i = 0; i < 3000; i++) {
		size_t n = (size_t)rand() % sizeof(text);

		for (size_t k = 0; k < n; k++)
			text[k] = i % 3 == 0 ? (char)rand()
					     : alphabet[(size_t)rand() % (sizeof(alphabet) - 1)];
		out = NULL;
		if (config_load_text("f", text, n, &schema, &out, err, sizeof(err)) == 0)
			config_free(&schema, out);
	}
}

static void later_errors_find_their_line(void **state)
{
	char path[] = "/tmp/strait-config-test-XXXXXX";
	static const char text[] = "listen: a\nitems:\n  - name: x\n  - size: 3\n    name: y\n";
	int fd = mkstemp(path);

	(void)state;
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	assert_int_equal(config_line(path, "listen"), 1);
	assert_int_equal(config_line(path, "items[1]"), 4);
	assert_int_equal(config_line(path, "items[1].name"), 5);
	assert_int_equal(config_line(path, "items[0].size"), 3);
	assert_int_equal(config_line(path, "items[7].size"), 2);
	assert_int_equal(config_line(path, "nothing"), 1);
	assert_int_equal(config_line("/nowhere", "x"), 0);
	assert_int_equal(config_fail(err, sizeof(err), path, "items[1].size", "is %d", 3), -EINVAL);
	assert_non_null(strstr(err, ":4: items[1].size: is 3"));
	/* not "items[1].size: items[1].size: " */
	config_fail(err, sizeof(err), path, "items[1].size", "items[1].size: is 3");
	assert_non_null(strstr(err, ":4: items[1].size: is 3"));
	config_fail(err, sizeof(err), path, "items[1].size", "size: is 3");
	assert_non_null(strstr(err, ":4: items[1].size: is 3"));
	unlink(path);
}

static void names_keep_to_the_rule(void **state)
{
	static const char *const bad[] = { "", "-a", ".a", "_a", "A", "a b", "a/b", "caf\xc3\xa9",
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" };

	(void)state;
	assert_true(name_is_valid("a"));
	assert_true(name_is_valid("eu-1.dc_2"));
	assert_true(
		name_is_valid("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(name_check("site", bad[i], err, sizeof(err)), -EINVAL);
}

static void files_are_replaced_whole_and_never_overwritten_by_create(void **state)
{
	char dir[] = "/tmp/strait-file-test-XXXXXX", path[64], *text;
	struct stat st;
	size_t len;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/f", dir);
	assert_int_equal(file_write_atomic(path, "one", 3, 0600), 0);
	assert_int_equal(file_write_atomic(path, "second", 6, 0640), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0640);
	assert_int_equal(file_read(path, 100, &text, &len), 0);
	assert_string_equal(text, "second");
	free(text);
	assert_int_equal(file_read(path, 5, &text, &len), -EFBIG);
	assert_int_equal(file_read(dir, 5, &text, &len), -EISDIR);
	assert_int_equal(file_create(path, "x", 1, 0600), -EEXIST);
	assert_int_equal(file_check_private(path, err, sizeof(err)), -EPERM);
	assert_int_equal(chmod(path, 0400), 0);
	assert_int_equal(file_check_private(path, err, sizeof(err)), 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(file_check_private(path, err, sizeof(err)), -ENOENT);
	assert_int_equal(rmdir(dir), 0); /* no temporary is left */
}

static void expect_content(const char *path, const char *want)
{
	char *text;
	size_t len;

	assert_int_equal(file_read(path, 100, &text, &len), 0);
	assert_string_equal(text, want);
	free(text);
}

static void a_file_that_a_user_names_keeps_its_kind_and_mode(void **state)
{
	char dir[] = "/tmp/strait-put-test-XXXXXX", file[64], link[64], fifo[64], stale[96], buf[8];
	mode_t before = umask(0077);
	struct stat st;
	int fd;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(file, sizeof(file), "%s/f", dir);
	snprintf(link, sizeof(link), "%s/l", dir);
	snprintf(fifo, sizeof(fifo), "%s/p", dir);

	assert_int_equal(symlink(file, link), 0);
	assert_int_equal(file_put(link, "one", 3), 0); /* dangling so far */
	expect_content(file, "one");
	assert_int_equal(unlink(file), 0);
	assert_int_equal(file_put(file, "two", 3), 0);
	assert_int_equal(stat(file, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	/* what a killed process with our number left is in nobody's way */
	snprintf(stale, sizeof(stale), "%s.%d-1.tmp", file, (int)getpid());
	assert_int_equal(file_create(stale, "x", 1, 0600), 0);
	assert_int_equal(file_put(file, "two", 3), 0);
	assert_int_equal(unlink(stale), 0);
	assert_int_equal(chmod(file, 0664), 0);
	assert_int_equal(file_put(link, "three", 5), 0);
	expect_content(file, "three");
	assert_int_equal(lstat(link, &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_int_equal(stat(file, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0664);

	assert_int_equal(mkfifo(fifo, 0600), 0);
	fd = open(fifo, O_RDWR);
	assert_true(fd >= 0);
	assert_int_equal(file_put(fifo, "four", 4), 0);
	assert_int_equal(read(fd, buf, sizeof(buf)), 4);
	close(fd);
	assert_int_equal(lstat(fifo, &st), 0);
	assert_true(S_ISFIFO(st.st_mode));
	assert_int_equal(file_put("/dev/null", "five", 4), 0);
	assert_int_equal(lstat("/dev/null", &st), 0);
	assert_true(S_ISCHR(st.st_mode));
	assert_int_equal(file_put(dir, "six", 3), -EISDIR);

	assert_int_equal(unlink(file), 0);
	assert_int_equal(unlink(link), 0);
	assert_int_equal(unlink(fifo), 0);
	assert_int_equal(rmdir(dir), 0); /* no temporary is left */
	umask(before);
}

static void durations_are_within_bounds(void **state)
{
	uint64_t ns = 7;

	(void)state;
	assert_int_equal(config_duration("f", "x", NULL, 1, 2, &ns, err, sizeof(err)), 0);
	assert_int_equal(ns, 7);
	assert_int_equal(config_duration("f", "x", "2s", CONFIG_SECOND, CONFIG_DAY, &ns, err,
				 sizeof(err)),
		0);
	assert_int_equal(ns, 2 * CONFIG_SECOND);
	assert_int_equal(config_duration("f", "x", "25h", CONFIG_SECOND, CONFIG_DAY, &ns, err,
				 sizeof(err)),
		-EINVAL);
	assert_non_null(strstr(err, "must be 1.00 s to 1.00 d"));
	assert_int_equal(config_duration("f", "x", "2", CONFIG_SECOND, CONFIG_DAY, &ns, err,
				 sizeof(err)),
		-EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_text_is_loaded),
		cmocka_unit_test(only_words_for_true_and_false_are_booleans),
		cmocka_unit_test(every_error_names_file_and_line),
		cmocka_unit_test(random_text_never_harms),
		cmocka_unit_test(later_errors_find_their_line),
		cmocka_unit_test(names_keep_to_the_rule),
		cmocka_unit_test(a_file_that_a_user_names_keeps_its_kind_and_mode),
		cmocka_unit_test(files_are_replaced_whole_and_never_overwritten_by_create),
		cmocka_unit_test(durations_are_within_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
