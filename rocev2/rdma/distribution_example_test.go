// SPDX-License-Identifier: Apache-2.0

package rdma_test

import (
	"context"
	"fmt"

	_ "github.com/softroce/softroce-xdp/rocev2/nic/loopback"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// A host forwards what an origin writes to two destinations. Here all are in one program.
func ExampleDistribute() {
	ctx := context.Background()
	dev, err := rdma.Open(ctx, "lo", rdma.WithDriver("loopback")) // rdma.Open(ctx, "eth0")
	check(err)
	defer dev.Close()
	pd, err := dev.AllocPD()
	check(err)

	// The destinations accept a connection and give it memory.
	var group []rdma.Destination
	sinks := [][]byte{make([]byte, 4096), make([]byte, 4096)}
	for _, sink := range sinks {
		there, here := connected(ctx, dev, pd)
		m, err := there.Register(sink, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
		check(err)
		group = append(group, rdma.Destination{QP: here.QP(), Memory: m.Remote()})
	}
	region, err := rdma.Distribute(pd, make([]byte, 4096), group...)
	check(err)

	// The origin writes once, and receives the report.
	_, origin := connected(ctx, dev, pd)
	check(origin.Write(ctx, []byte("once"), region.Remote()))
	m, err := origin.RecvMessage(ctx)
	check(err)
	report, err := rdma.ParseReport(m.Bytes())
	check(err)
	fmt.Printf("%d destinations have %d bytes: %t\n", report.Destinations, report.Length, report.Delivered())
	fmt.Printf("%s %s\n", sinks[0][:4], sinks[1][:4])

	// Output:
	// 2 destinations have 4 bytes: true
	// once once
}

// connected returns the two ends of a connection of a device with itself.
func connected(ctx context.Context, dev verbs.Device, pd verbs.PD) (accepted, dialed *rdma.Conn) {
	l, err := rdma.Listen(ctx, dev, "127.0.0.1:0", rdma.WithPD(pd))
	check(err)
	defer l.Close()
	done := make(chan error, 1)
	go func() {
		var err error
		accepted, err = l.Accept(ctx)
		done <- err
	}()
	dialed, err = rdma.Dial(ctx, dev, l.Addr().String(), rdma.WithPD(pd))
	check(err)
	check(<-done)
	return accepted, dialed
}
