// SPDX-License-Identifier: Apache-2.0

package sim

// warmMost is how many events of a bucket warm looks ahead at.
const warmMost = 48

// smallPorts is how many ports' data fit the caches without warming.
const smallPorts = 512

// warm touches what the events of the bucket that has just been taken up will
// need. In a large network none of it is in the caches, and handling one event
// after the other would wait for memory at every step of port, packet, egress
// port. Here each step is done for all events before the next one, so that their
// loads overlap. It changes nothing.
func (n *Net) warm() {
	heap := n.wheel.heap
	if len(heap) < 2 {
		return
	}
	heap = heap[:min(len(heap), warmMost)]
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
	for i, id := range pkts[:k] {
		if id < 0 || int(id) >= len(n.pkts) {
			ports[i] = nobody
			continue
		}
		pk := &n.pkts[id]
		if ports[i]&1 == int32(evArrive) {
			ports[i] = int32(pk.route[pk.hop%maxLinks])
		} else {
			sum += pk.next
			ports[i] = nobody
		}
	}
	for _, pi := range ports[:k] {
		if pi >= 0 {
			p := &n.ports[pi]
			sum += n.wheel.slots[p.slots].owner + int32(p.txBytes) + n.queues[int(pi)*n.numQueues+dataQueue].tail
		}
	}
	n.warmed += sum
}
