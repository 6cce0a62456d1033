// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/rdma/client"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// serve serves an engine without interface, as the agent serves that of an interface.
func serve(dir string) (*device.Server, error) {
	s, err := device.New(device.Config{Socket: proto.SocketPath(dir, "eth0")})
	if err != nil {
		return nil, err
	}
	dev, err := nic.OpenLoopback(nic.Options{Feeder: s.Feeder()})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, s.Serve(dev)
}

// A process opens the device that an agent serves, and registers memory: of the arena, which costs no
// copy, and any other.
func Example() {
	dir, err := os.MkdirTemp("", "srd")
	check(err)
	defer os.RemoveAll(dir)
	s, err := serve(dir)
	check(err)
	defer s.Close()

	opened, err := rdma.Open(context.Background(), "eth0", rdma.WithConfig(client.Config{RunDir: dir}))
	check(err)
	defer opened.Close()
	dev := opened.(*client.Device)
	pd, err := dev.AllocPD()
	check(err)
	shared, err := dev.Alloc(4096)
	check(err)
	for _, b := range [][]byte{shared, make([]byte, 4096)} {
		r, err := pd.RegMR(b, verbs.AccessLocalWrite)
		check(err)
		fmt.Println(r.Len(), r.Deregister())
	}
	// Output:
	// 4096 <nil>
	// 4096 <nil>
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
