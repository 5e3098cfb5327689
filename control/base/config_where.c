/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/config_where.h"

#include <yaml.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 32 };

static bool is_begin(const yaml_event_t *e)
{
	return e->type == YAML_SEQUENCE_START_EVENT || e->type == YAML_MAPPING_START_EVENT;
}

static bool is_end(const yaml_event_t *e)
{
	return e->type == YAML_SEQUENCE_END_EVENT || e->type == YAML_MAPPING_END_EVENT;
}

unsigned int config_where_check(const char *text, size_t len, char *problem, size_t problem_len)
{
	unsigned int line = 0, documents = 0, depth = 0;
	yaml_parser_t parser;
	yaml_event_t event;
	bool end = false;

	if (!yaml_parser_initialize(&parser)) {
		snprintf(problem, problem_len, "out of memory");
		return 1;
	}
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
	while (!end && line == 0) {
		if (!yaml_parser_parse(&parser, &event)) {
			snprintf(problem, problem_len, "not valid YAML: %s%s%s",
				parser.problem != NULL ? parser.problem : "read error",
				parser.context != NULL ? " " : "",
				parser.context != NULL ? parser.context : "");
			/* reader errors have no mark */
			line = (unsigned int)parser.problem_mark.line + 1;
			break;
		}
		depth += is_begin(&event);
		depth -= is_end(&event);
		if (depth > DEPTH_MAX) {
			snprintf(problem, problem_len, "too many lists or mappings in each other");
			line = (unsigned int)event.start_mark.line + 1;
		} else if (event.type == YAML_DOCUMENT_START_EVENT && ++documents > 1) {
			snprintf(problem, problem_len, "a second YAML document begins here");
			line = (unsigned int)event.start_mark.line + 1;
		} else if (event.type == YAML_ALIAS_EVENT) {
			snprintf(problem, problem_len, "YAML aliases are not accepted");
			line = (unsigned int)event.start_mark.line + 1;
		} else if (event.type == YAML_SCALAR_EVENT &&
			memchr(event.data.scalar.value, '\0', event.data.scalar.length) != NULL) {
			snprintf(problem, problem_len, "a value has a NUL character");
			line = (unsigned int)event.start_mark.line + 1;
		}
		end = event.type == YAML_STREAM_END_EVENT;
		yaml_event_delete(&event);
	}
	if (line == 0 && documents == 0) {
		snprintf(problem, problem_len, "the file is empty");
		line = 1;
	}
	yaml_parser_delete(&parser);
	return line;
}

/* The value of a key of a mapping; of equal keys the first or the last. */
static yaml_node_t *lookup(yaml_document_t *doc, const yaml_node_t *map, const char *name,
	size_t len, bool last, unsigned int *line)
{
	yaml_node_t *found = NULL;

	for (yaml_node_pair_t *pair = map->data.mapping.pairs.start;
		pair < map->data.mapping.pairs.top; pair++) {
		yaml_node_t *key = yaml_document_get_node(doc, pair->key);

		if (key == NULL || key->type != YAML_SCALAR_NODE ||
			key->data.scalar.length != len ||
			memcmp(key->data.scalar.value, name, len) != 0)
			continue;
		*line = (unsigned int)key->start_mark.line + 1;
		found = yaml_document_get_node(doc, pair->value);
		if (!last)
			break;
	}
	return found;
}

/* The child that the first step of *where names, or NULL; *where moves past the step. */
static yaml_node_t *descend(yaml_document_t *doc, yaml_node_t *node, const char **where, bool last,
	unsigned int *line)
{
	const char *p = *where;
	size_t n;

	if (*p == '.')
		p++;
	if (*p == '[') {
		unsigned long i = strtoul(p + 1, NULL, 10);
		yaml_node_item_t *first = node->data.sequence.items.start;

		if (node->type != YAML_SEQUENCE_NODE ||
			i >= (unsigned long)(node->data.sequence.items.top - first))
			return NULL;
		*where = p + strcspn(p, "]") + (strchr(p, ']') != NULL);
		node = yaml_document_get_node(doc, first[i]);
		if (node != NULL)
			*line = (unsigned int)node->start_mark.line + 1;
		return node;
	}
	if (node->type != YAML_MAPPING_NODE)
		return NULL;
	n = strcspn(p, ".[");
	*where = p + n;
	return lookup(doc, node, p, n, last, line);
}

static unsigned int find_line(const char *text, size_t len, const char *where, bool last)
{
	yaml_document_t doc;
	yaml_parser_t parser;
	yaml_node_t *node;
	unsigned int line = 1;

	if (!yaml_parser_initialize(&parser))
		return 1;
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
	if (yaml_parser_load(&parser, &doc)) {
		node = yaml_document_get_root_node(&doc);
		if (node != NULL)
			line = (unsigned int)node->start_mark.line + 1;
		while (node != NULL && *where != '\0')
			node = descend(&doc, node, &where, last, &line);
		yaml_document_delete(&doc);
	}
	yaml_parser_delete(&parser);
	return line;
}

unsigned int config_where_line(const char *text, size_t len, const char *where)
{
	return find_line(text, len, where, false);
}

unsigned int config_where_last_line(const char *text, size_t len, const char *where)
{
	return find_line(text, len, where, true);
}
