// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/rdma/compute"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// AllReduce replaces the vector by the sum of those of all nodes. All nodes call it. After an error the
// ring is of no further use, and the content of the vector is undefined.
func (r *Ring) AllReduce(ctx context.Context) error {
	if err := r.allReduce(ctx); err != nil {
		return fmt.Errorf("ring: node %d: %w", r.config.Rank, err)
	}
	return nil
}

func (r *Ring) allReduce(ctx context.Context) error {
	// The next node may still use its vector, or send parts of the last sum.
	if err := r.prev.Send(ctx, []byte{begin}); err != nil {
		return err
	}
	if err := expect(ctx, r.next, begin); err != nil {
		return err
	}
	n := r.config.Nodes
	for s := range n - 1 {
		if err := r.reduce(ctx, s, r.parts[(r.config.Rank-s+n)%n]); err != nil {
			return err
		}
		if err := r.step(ctx, s); err != nil {
			return err
		}
		if err := r.addStaged(ctx, s, r.parts[(r.config.Rank-1-s+n)%n]); err != nil {
			return err
		}
	}
	for s := range n - 1 {
		p := r.parts[(r.config.Rank+1-s+n)%n]
		if err := r.write(ctx, r.nextHas.Vector, p, p.at); err != nil {
			return err
		}
		if err := r.step(ctx, n-1+s); err != nil {
			return err
		}
	}
	return nil
}

// begin is the message that a node has entered AllReduce. Those of steps are their numbers, modulo 128.
const begin = 255

// step tells the next node that a step is done, and waits for the previous one.
func (r *Ring) step(ctx context.Context, s int) error {
	if err := r.next.Send(ctx, []byte{byte(s % 128)}); err != nil {
		return err
	}
	return expect(ctx, r.prev, byte(s%128))
}

func expect(ctx context.Context, c *rdma.Conn, want byte) error {
	var b [1]byte
	n, err := c.Recv(ctx, b[:])
	if err == nil && (n != 1 || b[0] != want) {
		err = fmt.Errorf("%s sent message %d of %d bytes, and %d was due", c.RemoteAddr(), b[0], n, want)
	}
	return err
}

// reduce adds a part to that of the next node, or writes it to its staging memory.
func (r *Ring) reduce(ctx context.Context, s int, p part) error {
	if r.tasks == nil {
		return r.write(ctx, r.nextHas.Staging, p, p.at)
	}
	return r.add(ctx, p)
}

// write writes a part to memory of the next node.
func (r *Ring) write(ctx context.Context, to rdma.Remote, p part, at int) error {
	to, err := to.Slice(uint64(at), uint64(p.n))
	if err != nil {
		return err
	}
	wr := verbs.SendWR{Op: verbs.OpWrite, RemoteAddr: to.Addr, RKey: to.RKey, SGL: []verbs.SGE{r.own.SGE(p.at, p.n)}}
	_, err = r.next.Do(ctx, &wr)
	return err
}

const (
	taskBytes    = 1 << 20 // of a part in one task
	tasksAtATime = 4
)

// add has the next node add a part to its own, by tasks.
func (r *Ring) add(ctx context.Context, p part) error {
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed error
	room := make(chan struct{}, tasksAtATime)
	for at := p.at; at < p.at+p.n; at += taskBytes {
		room <- struct{}{}
		all.Go(func() {
			err := r.addPiece(ctx, at, min(taskBytes, p.at+p.n-at))
			mu.Lock()
			failed = errors.Join(failed, err)
			mu.Unlock()
			<-room
		})
	}
	all.Wait()
	return failed
}

func (r *Ring) addPiece(ctx context.Context, at, n int) error {
	shape := compute.Shape{uint32(n / int(r.config.Type.Size()))}
	here := r.operand
	here.VA, here.Length, here.Shape = here.VA+uint64(at), uint32(n), shape
	there := compute.Operand{
		VA: r.nextHas.Vector.Addr + uint64(at), Length: uint32(n), Key: r.nextHas.Vector.RKey, Type: r.config.Type, Shape: shape,
	}
	return r.tasks.Do(ctx, &compute.Descriptor{Kernel: compute.KernelAdd, Operands: []compute.Operand{here, there}, Result: there})
}

// addStaged adds what the previous node has written to staging memory.
func (r *Ring) addStaged(ctx context.Context, s int, p part) error {
	if r.tasks != nil {
		return nil
	}
	mine := r.config.Vector[p.at:][:p.n]
	o := compute.Operand{Type: r.config.Type, Length: uint32(p.n), Shape: compute.Shape{uint32(p.n / int(r.config.Type.Size()))}}
	d := compute.Descriptor{Kernel: compute.KernelAdd, Operands: []compute.Operand{o, o}, Result: o}
	return builtin.Kernel(compute.KernelAdd).Run(ctx, &d, [][]byte{r.staging[p.at:][:p.n], mine}, mine)
}

var builtin = compute.Builtin()
