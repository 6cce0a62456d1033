// SPDX-License-Identifier: Apache-2.0

package nicbench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"

	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/testenv/bench/internal/stats"
)

// attack sends random control messages to a device until this process is killed. Where the server
// ends the connection, it makes another one.
func attack(dir string) error {
	rng := rand.New(rand.NewPCG(1, 2))
	fmt.Println("ready")
	for {
		c, err := net.Dial("unixpacket", proto.SocketPath(dir, cableName))
		if err != nil {
			return err
		}
		conn := c.(*net.UnixConn)
		go discard(conn)
		err = proto.Write(conn, proto.Append(nil, proto.Header{Type: proto.THello}, &proto.Hello{Magic: proto.Magic, Version: proto.Version}))
		for err == nil {
			body := make([]byte, rng.IntN(100))
			for i := range body {
				body[i] = byte(rng.IntN(4)) // often a handle or a size that is possible
			}
			t := proto.Type(1 + rng.IntN(int(proto.TDestroyQP)))
			err = proto.Write(conn, append(proto.Append(nil, proto.Header{Type: t}, nil), body...))
		}
		conn.Close()
	}
}

// discard reads replies, or the server would end the connection for that.
func discard(conn *net.UnixConn) {
	b := make([]byte, proto.MaxMessage)
	for {
		_, fds, err := proto.Read(conn, b)
		if err != nil {
			return
		}
		proto.CloseFDs(fds)
	}
}

// nextToHostile compares a process that is alone with the same next to one that sends garbage.
func nextToHostile(ctx context.Context, w *world, c config, r *report) error {
	var alone, next []float64
	err := w.children(ctx, 1, 64<<10, 16, c.each, func(all []*child) error {
		for range c.rounds {
			v, err := together(all)
			if err != nil {
				return err
			}
			alone = append(alone, v[0])
			hostile, err := w.child(ctx, 0, 0, c.each)
			if err != nil {
				return err
			}
			v, err = together(all)
			hostile.kill()
			if err != nil {
				return err
			}
			next = append(next, v[0])
		}
		return nil
	})
	if err != nil {
		return err
	}
	share := stats.Median(ratios(next, alone))
	r.row("throughput next to a process that sends random messages, of that alone\t%.2f\t%s", share, r.atLeast(share, victimTarget, "%.2f"))
	return nil
}
