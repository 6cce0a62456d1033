// SPDX-License-Identifier: Apache-2.0

package rxepeer

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// Counters are the values of an rxe device's hw_counters by the names of the kernel's
// rdma_rxe driver (rxe_hw_counters.c), such as sent_pkts, duplicate_request,
// out_of_seq_request, rcvd_rnr_err, completer_retry_err.
type Counters map[string]uint64

// RxeCounters reads the counters of rxe0.
func (vm *VM) RxeCounters(ctx context.Context) (Counters, error) {
	return vm.RxeCountersOf(ctx, "rxe0")
}

// RxeCountersOf reads the counters of an rxe device.
func (vm *VM) RxeCountersOf(ctx context.Context, dev string) (Counters, error) {
	files, err := vm.GetAll(ctx, "/sys/class/infiniband/"+dev+"/ports/1/hw_counters")
	if err != nil {
		return nil, err
	}
	c := Counters{}
	for name, value := range files {
		if name == "lifespan" {
			continue // how long sysfs caches the others, in ms
		}
		n, err := strconv.ParseUint(strings.TrimSpace(string(value)), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("rxepeer: machine %s: %s: counter %s is %q", vm.Config.Name, dev, name, value)
		}
		c[name] = n
	}
	return c, nil
}

// trafficCounters grow with healthy traffic (ack_deferred: a responder that answers
// a READ before it acknowledges what came before); any other tells of trouble.
var trafficCounters = map[string]bool{
	"sent_pkts": true, "rcvd_pkts": true, "rdma_sends": true, "rdma_recvs": true, "ack_deferred": true,
}

// Trouble returns the counters that have grown since before, other than those that count plain
// traffic: duplicates, sequence errors, RNR, retries and the like.
func (c Counters) Trouble(before Counters) Counters {
	grown := Counters{}
	for name, n := range c {
		if d := n - before[name]; d != 0 && !trafficCounters[name] {
			grown[name] = d
		}
	}
	return grown
}

// TroubleIn is Trouble without what an impatient exchange may count on a busy host.
func (c Counters) TroubleIn(x Exchange, before Counters) Counters {
	grown := c.Trouble(before)
	if x.Impatient {
		delete(grown, "completer_retry_err")
		delete(grown, "duplicate_request")
	}
	return grown
}
