// SPDX-License-Identifier: Apache-2.0

package sim

// This file makes the networks of the scenarios.

import (
	"fmt"
)

// Star is hosts around one switch. The bottleneck "down0" is the link to host 0,
// the receiver of an incast, and "down1" and so on are those to the others.
func Star(hosts int, l Link) Topology {
	t := Topology{Name: fmt.Sprintf("star-%d", hosts), Hosts: hosts, Switches: 1}
	for h := range hosts {
		t.Wires = append(t.Wires, Wire{A: h, B: hosts, Link: l})
		t.Bottlenecks = append(t.Bottlenecks, Direction{Name: fmt.Sprintf("down%d", h), From: hosts, To: h})
	}
	return t
}

// Dumbbell is n hosts on each side of a bottleneck between two switches: hosts 0
// to n-1 on the left, n to 2n-1 on the right. The bottlenecks are "right" (the
// direction to the right) and "left".
func Dumbbell(n int, edge, middle Link) Topology {
	t := Topology{Name: fmt.Sprintf("dumbbell-%d", n), Hosts: 2 * n, Switches: 2}
	left, right := 2*n, 2*n+1
	for h := range n {
		t.Wires = append(t.Wires, Wire{A: h, B: left, Link: edge}, Wire{A: n + h, B: right, Link: edge})
	}
	t.Wires = append(t.Wires, Wire{A: left, B: right, Link: middle})
	t.Bottlenecks = []Direction{{Name: "right", From: left, To: right}, {Name: "left", From: right, To: left}}
	return t
}

// ParkingLot is a chain of hops+1 switches whose hops links are bottlenecks
// "hop0", "hop1" and so on. Host 0 sends the long flow to host 1 over all of them;
// host 2+2i sends a cross flow to host 3+2i over hop i.
func ParkingLot(hops int, edge, middle Link) Topology {
	t := Topology{Name: fmt.Sprintf("parking-lot-%d", hops), Hosts: 2 + 2*hops, Switches: hops + 1}
	first := t.Hosts
	t.Wires = append(t.Wires, Wire{A: 0, B: first, Link: edge}, Wire{A: 1, B: first + hops, Link: edge})
	for i := range hops {
		a, b := first+i, first+i+1
		t.Wires = append(t.Wires,
			Wire{A: 2 + 2*i, B: a, Link: edge}, Wire{A: 3 + 2*i, B: b, Link: edge}, Wire{A: a, B: b, Link: middle})
		t.Bottlenecks = append(t.Bottlenecks, Direction{Name: fmt.Sprintf("hop%d", i), From: a, To: b})
	}
	return t
}

// FatTree is the three-level fat-tree of k-port switches with k^3/4 hosts (k even):
// k pods of k/2 edge and k/2 aggregation switches, and k^2/4 core switches. Hosts
// are numbered along the pods, k/2 at each edge switch. k=8 has 128 hosts, k=16
// 1024, k=26 4394. fabric are the links between switches.
func FatTree(k int, edge, fabric Link) (Topology, error) {
	if k < 2 || k%2 != 0 || k > 32 {
		return Topology{}, fmt.Errorf("fat-tree of %d-port switches: use an even number from 2 to 32", k)
	}
	half := k / 2
	t := Topology{Name: fmt.Sprintf("fat-tree-%d", k), Hosts: k * half * half, Switches: k*k + half*half}
	edges, aggs := t.Hosts, t.Hosts+k*half
	cores := aggs + k*half
	for pod := range k {
		for e := range half {
			sw := edges + pod*half + e
			for h := range half {
				t.Wires = append(t.Wires, Wire{A: (pod*half+e)*half + h, B: sw, Link: edge})
			}
			for a := range half {
				t.Wires = append(t.Wires, Wire{A: sw, B: aggs + pod*half + a, Link: fabric})
			}
		}
		for a := range half {
			for c := range half {
				t.Wires = append(t.Wires, Wire{A: aggs + pod*half + a, B: cores + a*half + c, Link: fabric})
			}
		}
	}
	return t, nil
}

// LeafSpine is leaves with perLeaf hosts each, all connected to all spines. The
// published set-up of cc-notes.md is one with 20 leaves of 16 hosts.
func LeafSpine(leaves, perLeaf, spines int, edge, fabric Link) Topology {
	t := Topology{Name: fmt.Sprintf("leaf-spine-%dx%d", leaves, perLeaf), Hosts: leaves * perLeaf, Switches: leaves + spines}
	for l := range leaves {
		for h := range perLeaf {
			t.Wires = append(t.Wires, Wire{A: l*perLeaf + h, B: t.Hosts + l, Link: edge})
		}
		for s := range spines {
			t.Wires = append(t.Wires, Wire{A: t.Hosts + l, B: t.Hosts + leaves + s, Link: fabric})
		}
	}
	return t
}
