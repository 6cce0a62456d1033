// SPDX-License-Identifier: Apache-2.0

package agents

import "github.com/cilium/ebpf/link"

// Groups are the situations by subject.
var Groups = []Group{
	{Name: "qdisc", Situations: []Situation{
		{
			What: "root qdisc deleted", Command: "tc qdisc del dev $IF root",
			Outcome: Repaired, Meanwhile: "unpaced until the repair",
		},
		{
			What: "class of a destination deleted", Text: "`tc class del dev IF classid 5352:N`", Command: "tc class del dev $IF classid 5352:$(tc class show dev $IF | sed -n 's/^class htb 5352:\\([0-9a-f]*\\) .*/\\1/p' | head -n1)",
			Outcome: Repaired, Meanwhile: "unpaced until the repair",
		},
		{
			What: "root qdisc replaced", Command: "tc qdisc replace dev $IF root pfifo",
			Outcome: Named, Words: []string{"root qdisc", "pfifo", "attach --upgrade"}, Remedy: "$X attach --upgrade $IF", Meanwhile: "unpaced until the remedy",
		},
		{
			What: "clsact added", Command: "tc qdisc add dev $IF clsact", Undo: "tc qdisc del dev $IF clsact",
		},
	}},
	{Name: "programs", Situations: []Situation{
		{
			What: "TCX program that passes, in front", Change: tcxProgram(tcxPass, link.Head()), Text: "for example Cilium",
			Outcome: Named, Words: []string{"cil_to_netdev"}, Meanwhile: "neither stamped nor measured until the remedy", Shown: "`softroce-xdp attach --upgrade IF`",
			Remedy: "$X attach --upgrade $IF", RemedyFirst: true,
		},
		{
			What: "TCX program that passes, behind", Change: tcxProgram(tcxPass, link.Tail()), Text: "for example Cilium",
		},
		{
			What: "XDP off", Command: "ip link set dev $IF xdp off", Outcome: Refused,
		},
		{
			What: "XDP program detached", Change: xdpDetached, Text: "`bpftool link detach id N`",
			Outcome: Repaired, Meanwhile: "not measured until the repair",
		},
		{
			What: "XDP program replaced", Change: xdpReplaced, Text: "`bpftool link detach id N`, another program attached",
			Outcome: Named, Words: []string{"xdp", "xdp_firewall"}, Remedy: "$X attach --upgrade $IF", Shown: "remove the program, `softroce-xdp attach --upgrade IF`",
			Meanwhile: "not measured until the remedy",
		},
	}},
	{Name: "clsact", Attach: []string{"--egress", "clsact"}, Situations: []Situation{
		{
			What: "clsact deleted (`--egress clsact`)", Command: "tc qdisc del dev $IF clsact",
			Outcome: Repaired, Meanwhile: "neither stamped nor paced until the repair",
		},
		{
			What: "egress filter deleted (`--egress clsact`)", Command: "tc filter del dev $IF egress",
			Outcome: Repaired, Meanwhile: "neither stamped nor paced until the repair",
		},
	}},
	{Name: "files", Situations: []Situation{
		{What: "pins removed", Command: "rm -rf $PINS", Outcome: Repaired},
		{What: "all pins of the host removed", Command: "rm -rf $PINROOT/*/", Outcome: Repaired},
		{What: "another bpf file system on top", Command: "mount -t bpf bpf $PINROOT", Outcome: Repaired},
		{What: "run directory removed", Command: "rm -rf $RUN", Outcome: Repaired},
	}},
	{Name: "state", Situations: []Situation{
		{What: "state file removed", Command: "rm $STATE", Outcome: Repaired},
		{What: "state file garbage", Command: "echo garbage >$STATE", Outcome: Repaired},
		{What: "state file empty", Command: ": >$STATE", Outcome: Repaired},
	}},
	{Name: "limit", Situations: []Situation{
		{
			What: "root qdisc deleted four times in an hour", Change: deletedFourTimes, Text: "`tc qdisc del dev IF root`",
			Outcome: Named, Words: []string{"root qdisc", "attach --upgrade"}, Remedy: "$X attach --upgrade $IF", Meanwhile: "unpaced until the remedy",
		},
	}},
	{Name: "addresses", Situations: []Situation{
		{
			What: "address changed and back", Command: "ip addr del $ADDR dev $IF; ip addr add 10.42.0.99/24 dev $IF",
			Undo: "ip addr del 10.42.0.99/24 dev $IF; ip addr add $ADDR dev $IF", Stops: true,
		},
		{What: "second address added", Command: "ip addr add 10.42.0.11/24 dev $IF", Undo: "ip addr del 10.42.0.11/24 dev $IF"},
		{
			What: "MAC changed", Command: "ip link set dev $IF address 02:00:00:00:42:01",
			Undo: "ip link set dev $IF address 02:53:52:ca:00:01",
		},
		{What: "MTU lowered, still enough", Command: "ip link set dev $IF mtu 1300", Undo: "ip link set dev $IF mtu 1500"},
		{What: "route to the peer is a blackhole", Command: "ip route add blackhole $PEER", Undo: "ip route del blackhole $PEER", Stops: true},
		{What: "reverse path filter strict", Command: "sysctl -qw net.ipv4.conf.$IF.rp_filter=1", Undo: "sysctl -qw net.ipv4.conf.$IF.rp_filter=0"},
		{What: "IPv6 on and off", Command: "sysctl -qw net.ipv6.conf.$IF.disable_ipv6=0; sysctl -qw net.ipv6.conf.$IF.disable_ipv6=1"},
		{What: "forwarding on", Command: "sysctl -qw net.ipv4.ip_forward=1", Undo: "sysctl -qw net.ipv4.ip_forward=0"},
		{
			What: "MTU without room for the option", Command: "ip link set dev $IF mtu 1100",
			Outcome: Named, Words: []string{"tx_too_big"}, Undo: "ip link set dev $IF mtu 1500", Lingers: true,
			Meanwhile: "packets that have no room are not stamped; the line stays for up to two minutes",
		},
	}},
	{Name: "link", Situations: []Situation{
		{What: "link down and up", Command: "ip link set dev $IF down", Undo: "ip link set dev $IF up", Stops: true},
		{What: "promiscuous mode", Command: "ip link set dev $IF promisc on", Undo: "ip link set dev $IF promisc off"},
		{What: "queues added", Command: "ethtool -L $IF rx 4", Undo: "ethtool -L $IF rx 2"},
		{What: "offloads off", Command: "ethtool -K $IF gro off tx off", Undo: "ethtool -K $IF gro on tx on"},
		{What: "bridge joined and left", Text: "`ip link set dev IF master BR`, `ip link set dev IF nomaster`", Command: "ip link add br9 type bridge; ip link set dev $IF master br9", Undo: "ip link set dev $IF nomaster; ip link del br9"},
		{What: "bridge joined and deleted", Text: "`ip link set dev IF master BR`, `ip link del BR`", Command: "ip link add br9 type bridge; ip link set dev $IF master br9; ip link del br9"},
		{What: "ingress qdisc added", Command: "tc qdisc add dev $IF ingress", Undo: "tc qdisc del dev $IF ingress"},
		{What: "length of the transmit queue", Command: "ip link set dev $IF txqueuelen 10", Undo: "ip link set dev $IF txqueuelen 1000"},
		{What: "segmentation limits", Command: "ip link set dev $IF gso_max_size 1500 gso_max_segs 1", Undo: "ip link set dev $IF gso_max_size 65536 gso_max_segs 65535"},
		{What: "macvlan on the interface", Command: "ip link add link $IF name mv9 type macvlan mode bridge; ip link set mv9 up", Undo: "ip link del mv9"},
	}},
	{Name: "names", Situations: []Situation{
		{What: "alternative name added", Command: "ip link property add dev $IF altname enp9s0", Undo: "ip link property del dev $IF altname enp9s0"},
		{
			What: "renamed", Command: "ip link set dev $IF down; ip link set dev $IF name c9; ip link set dev c9 up",
			Outcome: Named, Words: []string{"called c9 now"}, Undo: "ip link set dev c9 down; ip link set dev c9 name $IF; ip link set dev $IF up",
		},
		{
			What: "renamed, and the name given to another", Shown: "give both their names back",
			Command: "ip link set dev $IF down; ip link set dev $IF name c9; ip link set dev c9 up; ip link add $IF type veth peer name c8",
			Outcome: Named, Words: []string{"c9"}, Undo: "ip link del $IF; ip link set dev c9 down; ip link set dev c9 name $IF; ip link set dev $IF up",
		},
		{
			What: "attached by an alternative name", Command: "$X detach $IF; ip link property add dev $IF altname enp9s0; $X attach --rate 20M enp9s0",
			Undo: "ip link property del dev $IF altname enp9s0",
		},
		{
			What: "moved to another namespace", Command: "ip link set dev $IF netns $NS", Stops: true,
			Outcome: Named, Words: []string{"moved to another network namespace"}, Undo: "ip -n $NS link set dev $IF netns $$; ip link set dev $IF up; ip addr add $ADDR dev $IF",
			Remedy: "$X attach --rate 20M $IF", Shown: "move it back, `softroce-xdp attach IF`",
		},
		{
			What: "interface deleted", Text: "`ip link del IF`", Change: deleted, Stops: true,
			Outcome: Named, Words: []string{"not attached"}, Shown: "`softroce-xdp attach IF` once it exists again",
		},
	}},
	{Name: "nic", Attach: []string{"--nic"}, Situations: []Situation{
		{
			What: "queues added (`--nic`)", Command: "ethtool -L $IF rx 4",
			Outcome: Named, Words: []string{"queues", "attach --upgrade"}, Undo: "ethtool -L $IF rx 2", Shown: "`softroce-xdp attach --upgrade IF`, or `ethtool -L IF rx 2`",
		},
		{
			What: "agent without memory (`--nic`)", Change: withoutMemory, Text: "`prlimit --pid PID --as=1000000:`",
			Outcome: Named, Words: []string{"no agent runs"}, Remedy: "$X attach $IF", Meanwhile: "unpaced once the heartbeat is old",
		},
		{
			What: "run directory removed (`--nic`)", Command: "rm -rf $RUN",
			Outcome: Named, Words: []string{"device", "does not answer", "attach --upgrade"}, Remedy: "$X attach --upgrade $IF",
			Meanwhile: "traffic and open devices go on; no program can open the device until the remedy",
		},
		{What: "queues taken away (`--nic`)", Command: "ethtool -L $IF rx 1", Outcome: Refused},
	}},
	{Name: "unit", Foreground: true, Situations: []Situation{
		{What: "upgrade by hand (unit)", Change: upgradedByHand, Text: "`softroce-xdp attach --upgrade IF`"},
		{What: "reload (unit)", Command: "kill -HUP $AGENT", Text: "`systemctl reload softroce-xdp@IF`"},
		{What: "bridge joined and left (unit)", Text: "`ip link set dev IF master BR`, `ip link set dev IF nomaster`", Command: "ip link add br9 type bridge; ip link set dev $IF master br9; ip link set dev $IF nomaster; ip link del br9"},
		{
			What: "interface deleted (unit)", Change: deletedUnderUnit, Text: "`ip link del IF`", Stops: true,
			Outcome: Named, Words: []string{"not attached"}, Shown: "the unit, once the interface exists again",
			Meanwhile: "traffic stops; the process ends with an error, so that systemd starts it again",
		},
	}},
	{Name: "agent", Situations: []Situation{
		{What: "SIGHUP to the agent", Command: "kill -HUP $AGENT"},
		{What: "log removed", Command: "rm $RUN/$IF.log"},
		{
			What: "agent stopped", Command: "kill -STOP $AGENT", Within: 5,
			Outcome: Named, Words: []string{"heartbeat", "old"}, Undo: "kill -CONT $AGENT", Meanwhile: "unpaced once the heartbeat is old",
		},
		{What: "priority and processors of the agent", Command: "renice -n 19 -p $AGENT; taskset -pc 0 $AGENT", Text: "`renice`, `taskset`"},
		{
			What: "agent ended", Command: "kill $AGENT",
			Outcome: Named, Words: []string{"no agent runs"}, Remedy: "$X attach $IF", Meanwhile: "unpaced once the heartbeat is old",
		},
		{
			What: "agent killed", Command: "kill -KILL $AGENT",
			Outcome: Named, Words: []string{"no agent runs"}, Remedy: "$X attach $IF", Meanwhile: "unpaced once the heartbeat is old",
		},
		{
			What: "agent without descriptors, new destination", Change: withoutDescriptors, Text: "`prlimit --pid PID --nofile=3:`",
			Outcome: Named, Words: []string{"the agent does not report"}, Within: 7, Lingers: true,
			Meanwhile: "the new destination is unpaced; a line of control packets stays for up to a minute",
			Undo:      "prlimit --pid $AGENT --nofile=1024:", Shown: "more descriptors",
		},
	}},
}
