# SPDX-License-Identifier: Apache-2.0
"""Gateway between a Mooncake store and the pool of an edge."""
