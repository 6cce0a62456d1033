// SPDX-License-Identifier: Apache-2.0

package mutants

var bpfIngress = area{name: "BPF ingress", dir: "bpf/lib", pkg: "bpf", root: true, quick: 1, list: []mutant{
	{
		name: "the option is removed and the IP length still counts it", file: "ingress.h",
		old: "	ip_add_length(r, -STAMP_LEN);\n", new: "", test: "TestIngressStripsTheOption",
	},
	{
		name: "the token 0 of a peer without one proves a stamp", file: "ingress.h",
		old: "s->proven = s->token && s->token == d->rx_token;", new: "s->proven = s->token == d->rx_token;", test: "TestIngressNoToken",
	},
	{
		name: "CE of a packet without proof is passed on", file: "ingress.h",
		old: "			count(SR_STAT_rx_unproven);\n		r->ce = 0;\n", new: "			count(SR_STAT_rx_unproven);\n", test: "TestSteer",
	},
	{
		name: "the frame is shortened by the option, and keeps its padding", file: "ingress.h",
		old: "bpf_xdp_adjust_tail(ctx, -STAMP_LEN - padding)", new: "bpf_xdp_adjust_tail(ctx, -STAMP_LEN)", test: "TestIngressPaddingBehindTheOption",
	},
	{
		name: "any CNP of a plain peer counts", file: "ingress.h",
		old: "if (trust == TRUST_NONE || (trust == TRUST_PLAIN && !concerns_us(d, cfg, r, now))) {", new: "if (trust == TRUST_NONE) {",
		test: "TestForgedKinds",
	},
	{
		name: "the source MAC address is compared in place of the destination's", file: "ingress.h",
		old: "return own && mac_word(eth) != own;", new: "return own && mac_word(eth + 6) != own;", test: "TestIngressPassesUntouched",
	},
}}

var bpfEgress = area{name: "BPF egress", dir: "bpf/lib", pkg: "bpf", root: true, quick: 1, list: []mutant{
	{
		name: "the option is not counted against the MTU", file: "egress.h",
		old: "if (r->ip_len + STAMP_LEN > cfg->mtu ||", new: "if (r->ip_len > cfg->mtu ||", test: "TestEgressPassesUntouched",
	},
	{
		name: "T1 is the time before the pacer", file: "egress.h",
		old: "		s.t1_ns = leaves;\n", new: "		s.t1_ns = now;\n", test: "TestPacers",
	},
	{
		name: "an idle destination saves tokens without a limit", file: "pace.h",
		old: "	if (wait < -(__s64)cfg->burst_ns) ", new: "	if (!empty) ", test: "TestPaceRandom",
	},
	{
		name: "a packet with a UDP checksum gets the option", file: "egress.h",
		old: "	if (LD16(r->udp + 6))\n		return SR_STAT_tx_udp_checksum;\n", new: "", test: "TestEgressPassesUntouched",
	},
	{
		name: "packets of any process count as sent here", file: "egress.h",
		old: "return sk && (!sk->src_port || !bpf_get_socket_uid(skb));", new: "return !!sk;", test: "TestUnprivilegedSender",
		pkg: "testenv/e2e",
	},
	{
		name: "the rates of an agent that has stopped stay in force", file: "pace.h",
		old: "	if (heartbeat_stopped(cfg, mono)) {", new: "	if (0 && heartbeat_stopped(cfg, mono)) {", test: "TestHeartbeat",
	},
}}

var bpfLimits = area{name: "BPF limits", dir: "bpf/lib", pkg: "bpf", root: true, list: []mutant{
	{
		name: "the epochs of limits do not wrap", file: "limit.h",
		old: "if ((__s32)(to.epoch - has->epoch) <= 0)", new: "if (to.epoch <= has->epoch)", test: "TestRateLimit",
	},
	{
		name: "the rate of a limit has the byte order of the host", file: "limit.h",
		old: ".rate_bps = bpf_be64_to_cpu(LD64(body + 8)),", new: ".rate_bps = LD64(body + 8),", test: "TestRateLimit",
	},
	{
		name: "a limit that has ended drops packets", file: "limit.h",
		old: "|| !l->rate_bps || (__s64)(l->until_ns - now) <= 0)", new: "|| !l->rate_bps)", test: "TestOverLimit",
	},
	{
		name: "requests and answers beyond the limit are dropped", file: "limit.h",
		old: "		if (!data)\n			return 0;\n", new: "", test: "TestOverLimit",
	},
	{
		name: "a sender below its limit has no burst", file: "limit.h",
		old: "if (ahead > (__s64)l->burst_ns) {", new: "if (ahead > 0) {", test: "TestOverLimit",
	},
	{
		name: "the life of a limit has no bound", file: "limit.h",
		old: "	if (life > LIMIT_MAX_LIFE_NS)\n		life = LIMIT_MAX_LIFE_NS;\n", new: "", test: "TestRateLimit",
	},
}}
