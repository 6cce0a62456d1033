// SPDX-License-Identifier: Apache-2.0

package sim

// warmMost is how many events of a bucket warm looks ahead at.
const warmMost = 48

// smallPorts is how many ports' data fit the caches without warming.
const smallPorts = 512

// warm touches what the next events of the bucket will need. In a large network none of it is in the caches, and handling one event
// after the other would wait for memory at every step of port, packet, egress
// port. Here each step is done for all events before the next one, so that their
// loads overlap. It changes nothing.
func (n *Net) warm() {
	heap := n.wheel.heap
	if len(n.ports) <= smallPorts || len(heap) < 2 {
		n.warmFor = warmMost
		return
	}
	heap = heap[:min(len(heap), warmMost)]
	n.warmFor = len(heap)
	var ports, pkts [warmMost]int32
	var sum int32
	k := 0
	for i := range heap {
		s := &n.wheel.slots[heap[i].slot]
		if s.kind <= evFree {
			ports[k] = s.owner<<1 | int32(s.kind)
			k++
		}
	}
	for i, o := range ports[:k] {
		p := &n.ports[o>>1]
		if o&1 == int32(evArrive) {
			pkts[i] = nobody
			if !p.wire.empty() {
				pkts[i] = n.onWire.first(&p.wire).id
			}
		} else {
			pkts[i] = n.queues[int(o>>1)*n.numQueues+dataQueue].head
			sum += int32(p.txBytes)
		}
	}
	var flows [warmMost]int32
	ends := 0
	for i, id := range pkts[:k] {
		if id < 0 || int(id) >= len(n.pkts) {
			ports[i] = nobody
			continue
		}
		pk := &n.pkts[id]
		switch {
		case ports[i]&1 != int32(evArrive):
			sum += pk.next
			ports[i] >>= 1
		case n.ports[ports[i]>>1].toHost:
			if pk.flow >= 0 {
				sum += int32(n.cargo[id].tag)
				flows[ends] = pk.flow
				ends++
			}
			ports[i] = nobody
		default:
			ports[i] = int32(pk.route[pk.hop%maxLinks])
		}
	}
	for _, id := range flows[:ends] {
		f := n.flows[id]
		sum += int32(f.expect) + int32(f.una) + int32(f.back[0])
		if p := f.pacer; p != nil {
			sum += int32(p.InflightBytes) + p.pace
		}
	}
	var tails [warmMost]int32
	for i, pi := range ports[:k] {
		tails[i] = nobody
		if pi >= 0 {
			p := &n.ports[pi]
			tails[i] = n.queues[int(pi)*n.numQueues+dataQueue].tail
			sum += n.wheel.slots[p.slots].owner + int32(p.txBytes) + n.onWire[p.wire.off+p.wire.tail&p.wire.mask].id
		}
	}
	for _, id := range tails[:k] {
		if id >= 0 && int(id) < len(n.pkts) {
			sum += n.pkts[id].next
		}
	}
	n.warmed += sum
}
