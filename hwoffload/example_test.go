// SPDX-License-Identifier: Apache-2.0

package hwoffload_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
)

// One process serves the model of a card, and another one drives it.
func ExampleServe() {
	dir, err := os.MkdirTemp("", "card")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "card.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close()
	go hwoffload.Serve(l, card.New())

	socket, err := hwoffload.Dial("unix:"+path, 10*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer socket.Close()
	c, err := hwoffload.Open(socket)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(regs.PortsOf(c, 0).SpeedMbps(), c.Err())
	// Output: 100000 <nil>
}
