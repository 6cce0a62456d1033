// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/driver"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2/task"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// A program on one card has the cores of another card add numbers (S1.7). Both cards are models, joined
// by a cable; hwoffload.OpenBAR takes the same calls.
func ExampleTaskQueue() {
	ctx := context.Background()
	left, right := card.Cable(64)
	a, b := newEnd(1, left), newEnd(2, right)
	defer a.close()
	defer b.close()
	cores, err := b.model.StartTasks()
	check(err)
	defer cores.Close(ctx)
	tasks, err := b.dev.ServeTasks(b.qp, task.DefaultDepth, 1<<20)
	check(err)
	x := verbs.Endpoint{Addr: a.addr, QPN: a.qp.QPN(), PSN: 1}
	y := verbs.Endpoint{Addr: b.addr, QPN: b.qp.QPN(), PSN: 2}
	check(errors.Join(verbs.Connect(a.qp, x, y, verbs.DefaultAttr()), verbs.Connect(b.qp, y, x, verbs.DefaultAttr())))

	client, err := task.NewClient(task.ClientConfig{PD: a.pd, QP: a.qp, CQ: a.cq})
	check(err)
	m, err := verbs.NewMemory(a.pd, 16, verbs.AccessLocalWrite|verbs.AccessRemoteRead|verbs.AccessRemoteWrite) // on card a
	check(err)
	_, err = m.WriteAt(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, 20), 22), 0)
	check(err)
	check(client.Do(ctx, &task.Descriptor{
		Kernel:   task.KernelSum,
		Operands: []task.Operand{{VA: m.VA(), Length: 8, Key: m.RKey(), Type: task.Uint32, Shape: task.Shape{2}, Origin: true}},
		Result:   task.Operand{VA: m.VA() + 8, Length: 8, Key: m.RKey(), Type: task.Uint64, Shape: task.Shape{1}, Origin: true},
	}))
	sum := make([]byte, 8)
	_, err = m.ReadAt(sum, 8)
	check(err)
	fmt.Println(binary.LittleEndian.Uint64(sum))
	check(errors.Join(client.Close(), tasks.Close(ctx)))
	// Output: 42
}

// end is a card with a queue pair in INIT.
type end struct {
	model *card.Model
	run   *card.Running
	dev   *driver.Device
	addr  netip.Addr
	pd    verbs.PD
	cq    verbs.CQ
	qp    *driver.QP
}

func newEnd(number int, w card.Wire) (e end) {
	e.model, e.addr = card.New(), netip.AddrFrom4([4]byte{10, 0, 0, byte(number)})
	e.run = card.Start(e.model, [regs.PortsCount]card.Wire{w})
	c, err := hwoffload.Open(e.model)
	check(err)
	e.dev, err = driver.Open(c, driver.Config{Addrs: []netip.Addr{e.addr}, Resolve: func(dst netip.Addr) (driver.Hop, error) {
		return driver.Hop{MAC: [6]byte{2, 5: dst.As4()[3]}}, nil
	}})
	check(err)
	check(e.dev.SetPort(0, [6]byte{2, 5: byte(number)}))
	e.pd, err = e.dev.AllocPD()
	check(err)
	e.cq, err = e.dev.CreateCQ(task.CQDepth(0))
	check(err)
	qp, err := e.pd.CreateQP(task.QPInit(e.cq, 0))
	check(err)
	e.qp = qp.(*driver.QP)
	check(verbs.ToInit(qp, verbs.Endpoint{}, verbs.DefaultAttr()))
	return e
}

func (e end) close() { check(errors.Join(e.dev.Close(), e.run.Close())) }
