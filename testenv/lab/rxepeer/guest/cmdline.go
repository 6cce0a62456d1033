// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strconv"
	"strings"
)

// params is what the host wrote on the kernel command line:
//
//	rxepeer.host=NAME rxepeer.eth0=ADDR/LEN,ADDR/LEN rxepeer.eth1=... rxepeer.rxe=1
type params struct {
	host string
	nics []nic // interfaces in order eth0, eth1, ...
	rxe  bool  // add an rxe device on each
}

type nic struct {
	name  string
	addrs []string // CIDR
}

func parseCmdline(line string) params {
	values := map[string]string{}
	for _, word := range strings.Fields(line) {
		if rest, ok := strings.CutPrefix(word, "rxepeer."); ok {
			key, value, _ := strings.Cut(rest, "=")
			values[key] = value
		}
	}
	p := params{host: values["host"], rxe: values["rxe"] == "1"}
	for i := 0; ; i++ {
		name := "eth" + strconv.Itoa(i)
		value, ok := values[name]
		if !ok {
			return p
		}
		n := nic{name: name}
		if value != "" {
			n.addrs = strings.Split(value, ",")
		}
		p.nics = append(p.nics, n)
	}
}
