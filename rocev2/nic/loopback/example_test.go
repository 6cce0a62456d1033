// SPDX-License-Identifier: Apache-2.0

package loopback_test

import (
	"context"
	"fmt"
	"log"

	_ "github.com/softroce/softroce-xdp/rocev2/nic/loopback"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
)

// Client and server of an application are tested in one process. Each device is independent of all
// others, so both ends use the same one.
func Example() {
	ctx := context.Background()
	dev, err := rdma.Open(ctx, "lo", rdma.WithDriver("loopback"))
	check(err)
	defer dev.Close()
	l, err := rdma.Listen(ctx, dev, "127.0.0.1:0")
	check(err)
	defer l.Close()
	received := make(chan string)
	go func() {
		c, err := l.Accept(ctx)
		check(err)
		defer c.Close()
		b := make([]byte, 64)
		n, err := c.Recv(ctx, b)
		check(err)
		received <- string(b[:n])
	}()
	c, err := rdma.Dial(ctx, dev, l.Addr().String())
	check(err)
	defer c.Close()
	check(c.Send(ctx, []byte("hello")))
	fmt.Println(<-received)
	// Output: hello
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
