// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// world is an executor with one origin, and memory that MR checks guard.
type world struct {
	t      testing.TB
	exec   *Executor
	table  *mr.Table
	pd     uint32
	origin *Origin
	next   ID

	regions []*mr.Region
}

func newWorld(t testing.TB, c Config) *world {
	t.Helper()
	w := &world{t: t}
	w.exec = testkit.Must1(NewExecutor(c))(t)
	t.Cleanup(func() {
		ctx := testkit.Context(t)
		if err := w.exec.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	w.table = testkit.Must1(mr.New(mr.Config{}))(t)
	w.pd = w.table.AllocPD()
	w.origin = testkit.Must1(w.exec.NewOrigin(Local(w.table, w.pd)))(t)
	return w
}

// operand registers memory and returns it as an operand.
func (w *world) operand(b []byte, typ Type, s Shape) Operand {
	w.t.Helper()
	r := testkit.Must1(w.table.Register(mr.Spec{PD: w.pd, Host: b, Access: verbs.AccessLocalWrite}))(w.t)
	w.regions = append(w.regions, r)
	return Operand{VA: r.VA(), Length: uint32(len(b)), Key: r.LKey(), Type: typ, Shape: s}
}

// forget deregisters all memory.
func (w *world) forget() {
	w.t.Helper()
	for _, r := range w.regions {
		testkit.Must(w.t, r.Deregister())
	}
	w.regions = nil
}

// submit submits a task with the next id.
func (w *world) submit(d Descriptor) <-chan Answer {
	d.ID = w.next
	w.next = (w.next + 1) & MaxID
	return w.submitAs(d)
}

// submitAs submits a task with the id of the descriptor.
func (w *world) submitAs(d Descriptor) <-chan Answer {
	c := make(chan Answer, 1)
	w.origin.Submit(Task{Descriptor: d, Done: func(a Answer) { c <- a }})
	return c
}

func wait(t testing.TB, c <-chan Answer) Answer {
	t.Helper()
	return testkit.Receive(t, "an answer", c)
}

// run executes a task and returns its answer.
func (w *world) run(d Descriptor) Answer { return wait(w.t, w.submit(d)) }

// want checks the status of an answer.
func want(t testing.TB, what string, a Answer, s Status) {
	t.Helper()
	if a.Status != s || (a.Err == nil) != (s == StatusOK) {
		t.Errorf("%s: %s, %v; want %s", what, a.Status, a.Err, s)
	}
	if a.Err != nil && !errors.Is(a.Err, &Error{Status: s}) {
		t.Errorf("%s: error %v", what, a.Err)
	}
}

// bytesOf are elements as they are in memory.
func bytesOf(t testing.TB, elements any) []byte {
	b := testkit.Must1(binary.Append(nil, binary.LittleEndian, elements))(t)
	return b
}

// kernelFunc is a kernel that takes anything.
type kernelFunc func(ctx context.Context, d *Descriptor, in [][]byte, out []byte) error

func (kernelFunc) Check(Operand, []Operand) error { return nil }

func (k kernelFunc) Run(ctx context.Context, d *Descriptor, in [][]byte, out []byte) error {
	return k(ctx, d, in, out)
}

// with returns the kernels of this package and one more, as FirstOwnKernel.
func with(t testing.TB, k kernelFunc) *Registry {
	t.Helper()
	r := Builtin()
	testkit.Must(t, r.Register(FirstOwnKernel, "own", k))
	return r
}
