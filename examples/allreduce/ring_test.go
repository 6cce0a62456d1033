// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/softroce/softroce-xdp/rocev2/nic/loopback"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/rdma/compute"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

func patient(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func open(t testing.TB) verbs.Device {
	t.Helper()
	dev, err := rdma.Open(patient(t), "lo", rdma.WithDriver("loopback"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dev.Close() })
	return dev
}

// world is a ring of nodes on one device.
type world struct {
	vectors [][]byte
	configs []Config
	errs    []error // errors of Join
	rings   []*Ring
}

// newWorld joins nodes whose configuration change may alter.
func newWorld(t testing.TB, vectors [][]byte, typ compute.Type, inNIC bool, change func(c *Config)) *world {
	t.Helper()
	dev := open(t)
	w := &world{vectors: vectors, errs: make([]error, len(vectors)), rings: make([]*Ring, len(vectors))}
	at := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", 7200+i%len(vectors)) }
	for i, v := range vectors {
		c := Config{Listen: at(i), Next: at(i + 1), Rank: i, Nodes: len(vectors), Vector: v, Type: typ}
		if inNIC {
			e, err := compute.NewExecutor(compute.ExecutorConfig{Cores: 1})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := e.Close(patient(t)); err != nil {
					t.Error(err)
				}
			})
			c.Executor = e
		}
		if change != nil {
			change(&c)
		}
		w.configs = append(w.configs, c)
	}
	ctx := patient(t)
	w.each(func(i int) { w.rings[i], w.errs[i] = Join(ctx, dev, w.configs[i]) })
	t.Cleanup(func() {
		w.each(func(i int) {
			if w.rings[i] == nil {
				return
			}
			if err := w.rings[i].Close(); err != nil {
				t.Error(err)
			}
		})
	})
	return w
}

func (w *world) each(do func(i int)) {
	var all sync.WaitGroup
	for i := range w.vectors {
		all.Go(func() { do(i) })
	}
	all.Wait()
}

func (w *world) allReduce(t testing.TB) {
	t.Helper()
	ctx := patient(t)
	w.each(func(i int) {
		if w.errs[i] == nil {
			w.errs[i] = w.rings[i].AllReduce(ctx)
		}
	})
	if err := errors.Join(w.errs...); err != nil {
		t.Fatal(err)
	}
}

// Every node has the sum, bit by bit, by programs and by NICs, also when it is repeated. Lengths are
// not divisible by the nodes, and parts are larger than a task.
func TestAllReduce(t *testing.T) {
	for _, nodes := range []int{2, 3, 5} {
		for _, elements := range []int{5, 1003, 900_001} {
			if elements > 10_000 && nodes != 3 {
				continue
			}
			for _, inNIC := range []bool{false, true} {
				rng := rand.New(rand.NewPCG(uint64(nodes), uint64(elements)))
				want, vectors := make([]byte, 8*elements), make([][]byte, nodes)
				for i := range vectors {
					vectors[i] = make([]byte, 8*elements)
					for k := 0; k < 8*elements; k += 8 {
						v := rng.Uint64()
						binary.LittleEndian.PutUint64(vectors[i][k:], v)
						binary.LittleEndian.PutUint64(want[k:], binary.LittleEndian.Uint64(want[k:])+v)
					}
				}
				w := newWorld(t, vectors, compute.Int64, inNIC, nil)
				for round := range 2 {
					w.allReduce(t)
					for i, v := range vectors {
						if !bytes.Equal(v, want) {
							t.Fatalf("%d nodes, %d elements, in the NIC %v, round %d: node %d has another sum", nodes, elements, inNIC, round, i)
						}
					}
					for k := 0; k < len(want); k += 8 { // of vectors that are all the sum
						binary.LittleEndian.PutUint64(want[k:], binary.LittleEndian.Uint64(want[k:])*uint64(nodes))
					}
				}
			}
		}
	}
}

// Programs and NICs give the same bits of floating-point numbers.
func TestSameBits(t *testing.T) {
	var results [2][]byte
	for mode := range results {
		rng := rand.New(rand.NewPCG(1, 2))
		vectors := make([][]byte, 4)
		for i := range vectors {
			for range 1001 {
				vectors[i] = binary.LittleEndian.AppendUint32(vectors[i], math.Float32bits(float32(rng.NormFloat64())))
			}
		}
		newWorld(t, vectors, compute.Float32, mode == 1, nil).allReduce(t)
		results[mode] = vectors[0]
		for i, v := range vectors {
			if !bytes.Equal(v, results[mode]) {
				t.Errorf("node %d has other bits", i)
			}
		}
	}
	if !bytes.Equal(results[0], results[1]) {
		t.Error("programs and NICs have other bits")
	}
}

// Nodes that do not fit are told why.
func TestRefused(t *testing.T) {
	dev := open(t)
	good := Config{Listen: ":0", Next: "127.0.0.1:1", Nodes: 2, Vector: make([]byte, 16), Type: compute.Float64}
	for want, change := range map[string]func(c *Config){
		"at least 2 nodes":     func(c *Config) { c.Nodes = 1 },
		"rank 2 of 2":          func(c *Config) { c.Rank = 2 },
		"there is no type 99":  func(c *Config) { c.Type = 99 },
		"vector of 15 bytes":   func(c *Config) { c.Vector = c.Vector[:15] },
		"one for each":         func(c *Config) { c.Vector = c.Vector[:8] },
		"missing port":         func(c *Config) { c.Listen = "nothing" },
		"127.0.0.1: missing p": func(c *Config) { c.Next = "127.0.0.1" },
	} {
		c := good
		change(&c)
		if _, err := Join(patient(t), dev, c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	for want, change := range map[string]func(c *Config){
		"should have":      func(c *Config) { c.Nodes += c.Rank },
		"vector of":        func(c *Config) { c.Vector = append(c.Vector, make([]byte, 8*c.Rank)...) },
		"of float64, and":  func(c *Config) { c.Type = []compute.Type{compute.Float64, compute.Int64}[c.Rank] },
		"adds in the NIC":  func(c *Config) { c.Executor = executors(t)[c.Rank] },
		"it has rank 0 of": func(c *Config) { c.Rank = 0 },
	} {
		w := newWorld(t, [][]byte{make([]byte, 32), make([]byte, 32)}, compute.Float64, false, change)
		if err := errors.Join(w.errs...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// executors are none for node 0, and one for node 1.
func executors(t *testing.T) [2]*compute.Executor {
	e, err := compute.NewExecutor(compute.ExecutorConfig{Cores: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close(context.Background()) })
	return [2]*compute.Executor{nil, e}
}

// A node that goes ends the sum of all others with an error.
func TestNodeGoes(t *testing.T) {
	for _, inNIC := range []bool{false, true} {
		vectors := [][]byte{make([]byte, 8000), make([]byte, 8000), make([]byte, 8000)}
		w := newWorld(t, vectors, compute.Int64, inNIC, nil)
		w.allReduce(t)
		if err := w.rings[1].Close(); err != nil {
			t.Error(err)
		}
		w.rings[1] = nil
		var mu sync.Mutex
		failed := 0
		ctx := patient(t)
		w.each(func(i int) {
			if w.rings[i] == nil {
				return
			}
			err := w.rings[i].AllReduce(ctx)
			if errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("node %d waits for ever", i)
			}
			_ = w.rings[i].Close() // so that the next one ends, too
			mu.Lock()
			defer mu.Unlock()
			if w.rings[i] = nil; err != nil {
				failed++
			}
		})
		if failed != 2 {
			t.Errorf("in the NIC %v: %d of 2 nodes see the end", inNIC, failed)
		}
	}
}

// Nobody writes to a node that has not entered AllReduce: its program may still use the last sum.
func TestNotBeforeBegin(t *testing.T) {
	for _, inNIC := range []bool{false, true} {
		vectors := [][]byte{{1, 1, 1}, {2, 2, 2}, {3, 3, 3}}
		w := newWorld(t, vectors, compute.Uint8, inNIC, nil)
		w.allReduce(t)
		ctx, cancel := context.WithTimeout(patient(t), 100*time.Millisecond)
		defer cancel()
		w.each(func(i int) {
			if i == 2 {
				return
			}
			if err := w.rings[i].AllReduce(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("node %d: %v", i, err)
			}
		})
		if !bytes.Equal(vectors[2], []byte{6, 6, 6}) || !inNIC && !bytes.Equal(w.rings[2].staging, []byte{3, 2, 0}) {
			t.Errorf("in the NIC %v: the vector is %d, and %d is staged", inNIC, vectors[2], w.rings[2].staging)
		}
	}
}

// A message that is not due is an error.
func TestWrongMessage(t *testing.T) {
	w := newWorld(t, [][]byte{make([]byte, 2), make([]byte, 2)}, compute.Uint8, false, nil)
	ctx := patient(t)
	if err := w.rings[0].next.Send(ctx, []byte{77}); err != nil {
		t.Fatal(err)
	}
	w.each(func(i int) {
		w.errs[i] = w.rings[i].AllReduce(ctx)
		if i == 1 {
			_ = w.rings[i].Close() // so that the other one ends, too
			w.rings[i] = nil
		}
	})
	if err := w.errs[1]; err == nil || !strings.Contains(err.Error(), "message 77") {
		t.Error(err)
	}
}

// BenchmarkAllReduce sums 8 MB of float32 of four nodes on an engine of this process.
func BenchmarkAllReduce(b *testing.B) {
	for _, inNIC := range []bool{false, true} {
		b.Run(map[bool]string{false: "program", true: "nic"}[inNIC], func(b *testing.B) {
			vectors := make([][]byte, 4)
			for i := range vectors {
				vectors[i] = make([]byte, 8<<20)
			}
			w := newWorld(b, vectors, compute.Float32, inNIC, nil)
			b.SetBytes(8 << 20)
			for b.Loop() {
				w.allReduce(b)
			}
		})
	}
}
