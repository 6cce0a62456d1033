// SPDX-License-Identifier: Apache-2.0

package sim

import "fmt"

// maxLinks is the most links that a path may have.
const maxLinks = 10

// portPath is the ports by which a packet leaves host and switches.
type portPath struct {
	ports [maxLinks]uint16
	links uint8
}

func (w *portPath) add(port int32) {
	w.ports[w.links] = uint16(port)
	w.links++
}

func (w *portPath) all() []uint16 { return w.ports[:w.links] }

// routing knows the shortest paths. A flow's path is found once, at its start, and
// carried by its packets, so that forwarding needs no table.
type routing struct {
	n     *Net
	links [][]hop // links of each node
	dist  map[int32][]uint16
	found []hop // memory of open
}

func (r *routing) build(n *Net) {
	r.n, r.dist = n, map[int32][]uint16{}
	r.links = make([][]hop, n.topo.Hosts+n.topo.Switches)
	for i := range n.ports {
		v := n.ports[i].node
		r.links[v] = append(r.links[v], hop{int32(i), n.ports[i^1].node})
	}
}

// hop is a port and the node at the other end of its wire.
type hop struct{ port, to int32 }

const unreachable = 1<<16 - 1

// distances are the links from every node to dst. Hosts behind one switch share
// them, with that switch as the destination.
func (r *routing) distances(dst int32) []uint16 {
	if d, ok := r.dist[dst]; ok {
		return d
	}
	d := make([]uint16, len(r.links))
	for i := range d {
		d[i] = unreachable
	}
	d[dst] = 0
	for todo := []int32{dst}; len(todo) > 0; todo = todo[1:] {
		v := todo[0]
		for _, h := range r.links[v] {
			u := h.to
			if d[u] == unreachable && (int(v) >= r.n.topo.Hosts || v == dst) {
				d[u] = d[v] + 1
				todo = append(todo, u)
			}
		}
	}
	r.dist[dst] = d
	return d
}

// find gives the path from host src to host dst for a flow's hash: at every switch
// the hash picks one of the shortest continuations.
func (r *routing) find(src, dst int32, hash uint64) (w portPath, err error) {
	w.add(r.links[src][0].port)
	v := r.links[src][0].to
	last := r.links[dst][0].port ^ 1
	edge := r.links[dst][0].to
	if v == dst {
		return w, nil
	}
	d := r.distances(edge)
	for v != edge {
		open := r.open(v, edge, d)
		if len(open) == 0 {
			return w, fmt.Errorf("no path from host %d to host %d", src, dst)
		}
		if w.links == maxLinks-1 {
			return w, fmt.Errorf("the path from host %d to host %d has more than %d links", src, dst, maxLinks)
		}
		next := open[mix(hash^uint64(v)<<32)%uint64(len(open))]
		w.add(next.port)
		v = next.to
	}
	w.add(last)
	return w, nil
}

// open are the ports from switch v that are among the shortest to switch edge,
// from which all have the distances d, in the order of their ports.
func (r *routing) open(v, edge int32, d []uint16) []hop {
	open := r.found[:0]
	if d[v] == 1 {
		// Of the two, edge has few links however large the network is.
		for _, h := range r.links[edge] {
			if h.to == v {
				open = append(open, hop{h.port ^ 1, edge})
			}
		}
	} else {
		for _, h := range r.links[v] {
			if int(h.to) >= r.n.topo.Hosts && d[h.to] != unreachable && d[h.to]+1 == d[v] {
				open = append(open, h)
			}
		}
	}
	r.found = open
	return open
}

// mix is the finaliser of SplitMix64.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// path works out what an empty network takes.
func (n *Net) path(out, home *portPath) Path {
	p := Path{Hops: int(out.links), PayloadBytes: n.cfg.PayloadBytes, PacketBytes: n.fullWire}
	var there, back tick
	for i, pi := range out.all() {
		port := &n.ports[pi]
		there += port.delay + port.serialise(uint16(n.fullWire))
		if i == 0 || port.bps < p.MinBps {
			p.MinBps = port.bps
		}
	}
	for _, pi := range home.all() {
		port := &n.ports[pi]
		back += port.delay + port.serialise(uint16(n.ackWire))
	}
	p.LinkBps = n.ports[out.ports[0]].bps
	p.OneWayNs = there.ns()
	p.BaseRTTNs = (there + back + n.hosts[n.ports[home.ports[0]].node].turnaround).ns()
	return p
}

// alone is the time from a flow's start until its last byte has arrived, if
// nothing else uses its path and the sender goes at the link's rate.
func (n *Net) alone(w *portPath, size int64) tick {
	full := (size - 1) / int64(n.cfg.PayloadBytes)
	lastWire := uint16(int(size-full*int64(n.cfg.PayloadBytes)) + n.headers())
	var sum, slowest, prop, last tick
	for _, pi := range w.all() {
		p := &n.ports[pi]
		ser := p.serialise(uint16(n.fullWire))
		sum += ser
		slowest = max(slowest, ser)
		// The link is free for the last packet when the one before has left.
		var free tick
		if full > 0 {
			free = sum + tick(full-1)*slowest + prop
		}
		last = max(last, free) + p.serialise(lastWire) + p.delay
		prop += p.delay
	}
	return last
}
