// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/softroce/softroce-xdp/rocev2/nic/loopback"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
)

// Two nodes on one device have the sums, by programs and by the NIC.
func TestSums(t *testing.T) {
	for _, inNIC := range []bool{false, true} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		dev, err := rdma.Open(ctx, "lo", rdma.WithDriver("loopback"))
		if err != nil {
			t.Fatal(err)
		}
		var out [2]strings.Builder
		var errs [2]error
		var nodes sync.WaitGroup
		for rank := range 2 {
			o, err := parse([]string{
				"-listen", fmt.Sprintf("127.0.0.1:%d", 7177+rank), "-next", fmt.Sprintf("127.0.0.1:%d", 7178-rank),
				"-rank", fmt.Sprint(rank), "-bytes", "65536", fmt.Sprintf("-in-nic=%v", inNIC),
			})
			if err != nil {
				t.Fatal(err)
			}
			nodes.Go(func() { errs[rank] = o.run(ctx, dev, &out[rank]) })
		}
		nodes.Wait()
		if err := errors.Join(errors.Join(errs[:]...), dev.Close()); err != nil {
			t.Error(err)
		}
		for rank := range out {
			if !strings.Contains(out[rank].String(), "sum 3: 65536 bytes of 2 hosts in ") {
				t.Errorf("node %d prints %q", rank, &out[rank])
			}
		}
	}
}

// What the user can put right is said.
func TestUsage(t *testing.T) {
	for line, want := range map[string]string{
		"":                           "-next is missing",
		"-next h a":                  `"a": allreduce takes no arguments`,
		"-next h -rank 2":            "-rank 2 of 2 hosts: choose 0 to 1",
		"-next h -bytes 12":          "-bytes 12: choose a multiple of 8",
		"-next h -nodes 3 -rank 3":   "choose 0 to 2",
		"-next h -rounds many":       "many",
		"-next h -nodes 3 -bytes 16": "at least 8 for each host",
	} {
		if _, err := parse(strings.Fields(line)); !errors.Is(err, errUsage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", line, err)
		}
	}
}
