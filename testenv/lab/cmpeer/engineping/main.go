// SPDX-License-Identifier: Apache-2.0

// Command engineping is rping on the engine of an attached interface, for machines of rxepeer. As
// server it answers -n connections in sequence, as client it makes as many.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/loader/engine"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/cmpeer"
)

var (
	iface  = flag.String("i", "eth0", "attached interface")
	server = flag.Bool("s", false, "wait for connections")
	local  = flag.String("l", "", "own address")
	peer   = flag.String("a", "", "address of the server")
	port   = flag.Uint("p", 7175, "port")
	count  = flag.Int("C", 3, "pings of a connection")
	conns  = flag.Int("n", 1, "connections")
)

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "engineping:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	dev, err := engine.Open(*iface, loader.Options{}, nic.Options{})
	if err != nil {
		return err
	}
	defer dev.Close()
	for range *conns {
		if err := one(ctx, dev); err != nil {
			return err
		}
	}
	fmt.Println("engineping: done")
	return nil
}

func one(ctx context.Context, dev *nic.Device) error {
	a, err := cmpeer.New(ctx, dev, verbs.RC)
	if err != nil {
		return err
	}
	defer a.Close()
	r := cmpeer.Rping{App: a}
	if err := r.Start(); err != nil {
		return err
	}
	if *server {
		if err := a.Session.Listen(mad.IPServiceID(mad.PortTCP, uint16(*port)), 0); err != nil {
			return err
		}
		fmt.Println("engineping: listening")
		if err := a.Accept(); err != nil {
			return err
		}
		text, err := r.Serve(*count)
		if err != nil {
			return err
		}
		fmt.Printf("engineping: the last text was %q\n", strings.TrimRight(text, "\x00"))
		return a.HangUp()
	}
	from, err := netip.ParseAddr(*local)
	if err != nil {
		return err
	}
	to, err := netip.ParseAddr(*peer)
	if err != nil {
		return err
	}
	if err := a.Dial(from, to, uint16(*port)); err != nil {
		return err
	}
	for i := range *count {
		if err := r.Ping(fmt.Sprintf("text %d of engineping", i)); err != nil {
			return err
		}
	}
	return a.HangUp()
}
