// SPDX-License-Identifier: Apache-2.0

package rates

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/softroce/softroce-xdp/cc/sim/scenario"
)

// discard is the port that cross traffic goes to (RFC 863). It is plain UDP: the
// product leaves it alone and learns of it by the queues that it makes.
const discard = 9

const (
	crossPayload = 1024
	crossFrame   = crossPayload + 8 + 20 + 14 // as a token bucket counts: UDP, IPv4, Ethernet
	crossTick    = time.Millisecond
)

// cross is traffic from one host to another that obeys nobody.
type cross struct {
	scenario.OnOff
	to         netip.Addr
	conn, sink *net.UDPConn
}

func (c *cross) close() {
	for _, conn := range []*net.UDPConn{c.conn, c.sink} {
		if conn != nil {
			conn.Close()
		}
	}
}

// openCross opens the sockets of the scenario's cross traffic. Nobody reads the sink:
// it is there so that no ICMP errors are sent, and drops what its buffer does not hold.
func (r *real) openCross() error {
	n := r.s.Topology.Size()
	for _, t := range r.s.Traffic {
		if t.OnOff == nil {
			continue
		}
		for _, src := range t.OnOff.From.Of(n) {
			for _, dst := range t.OnOff.To.Of(n) {
				if src == dst {
					continue
				}
				c := &cross{OnOff: *t.OnOff, to: r.addr(dst)}
				r.cross = append(r.cross, c)
				if err := r.hosts[dst].Do(func() (err error) {
					c.sink, err = net.ListenUDP("udp4", &net.UDPAddr{IP: c.to.AsSlice(), Port: discard})
					return err
				}); err != nil {
					return fmt.Errorf("simvsreal: cross traffic to %s: %w", r.hosts[dst].Name(), err)
				}
				if err := r.hosts[src].Do(func() (err error) {
					c.conn, err = net.DialUDP("udp4", nil, &net.UDPAddr{IP: c.to.AsSlice(), Port: discard})
					return err
				}); err != nil {
					return fmt.Errorf("simvsreal: cross traffic from %s: %w", r.hosts[src].Name(), err)
				}
			}
		}
	}
	return nil
}

// run sends until the context ends. Each stretch is as many packets as its rate
// allows by now; what a pause of the machine has left out is not made up for beyond
// a few ticks, as it would be a burst that the scenario does not have.
func (c *cross) run(ctx context.Context, begin time.Time) error {
	packet := make([]byte, crossPayload)
	perPacket := time.Duration(crossFrame * 8 * 1e9 / int64(c.Rate))
	start, period := begin.Add(time.Duration(c.Start)), time.Duration(c.On+c.Off)
	for next := start; ; next = next.Add(perPacket) {
		now := time.Now()
		if c.Stop > 0 && now.Sub(begin) >= time.Duration(c.Stop) {
			return nil
		}
		if late := now.Add(-4 * crossTick); next.Before(late) {
			next = late
		}
		if c.Off > 0 {
			if into := next.Sub(start) % period; into >= time.Duration(c.On) {
				next = next.Add(period - into)
			}
		}
		if next.After(now) && !wait(ctx, now.Add(max(next.Sub(now), crossTick))) || ctx.Err() != nil {
			return nil
		}
		if _, err := c.conn.Write(packet); err != nil {
			return fmt.Errorf("simvsreal: cross traffic to %v: %w", c.to, err)
		}
	}
}
