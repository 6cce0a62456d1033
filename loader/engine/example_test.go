// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/loader/engine"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
)

// The device of an interface to which `softroce-xdp attach eth0` has attached the data plane. This needs
// root. An application that the agent serves (`attach --nic`) needs neither root nor this package.
func Example() {
	ctx := context.Background()
	dev, err := rdma.Open(ctx, "eth0", rdma.WithDriver("softroce"), rdma.WithConfig(engine.Config{
		NIC: engine.Options{Spin: 50 * time.Microsecond, PreCredit: true},
	}))
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	c, err := rdma.Dial(ctx, dev, "10.0.0.2:7175")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	fmt.Println(c.Send(ctx, []byte("hello")))
}

// Open has the methods of this device that package verbs does not have.
func ExampleOpen() {
	dev, err := engine.Open("eth0", loader.Options{}, engine.Options{Mode: engine.Copy})
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	fmt.Println(dev.Link().MTU, dev.Mode())
}
