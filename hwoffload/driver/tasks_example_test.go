// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/driver"
	"github.com/softroce/softroce-xdp/rocev2/task"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// A host has a card compute on card memory. The card is a model behind a socket here; a PCI BAR
// (hwoffload.OpenBAR) takes the same calls.
func ExampleTasks() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "card")
	check(err)
	defer os.RemoveAll(dir)
	l, err := net.Listen("unix", filepath.Join(dir, "socket"))
	check(err)
	defer l.Close()
	model := card.New()
	cores, err := model.StartTasks()
	check(err)
	defer cores.Close(ctx)
	go hwoffload.Serve(l, model)

	socket, err := hwoffload.Dial("unix:"+l.Addr().String(), time.Minute)
	check(err)
	c, err := hwoffload.Open(socket)
	check(err)
	defer c.Close()
	d, err := driver.New(c, driver.Config{RingBytes: 1 << 20})
	check(err)
	pd, err := d.AllocPD()
	check(err)
	const addr, va = 1 << 30, 0x1000 // in card memory, and as tasks name it
	mr, err := d.RegMR(driver.Spec{PD: pd.(*driver.PD).Number(), Access: verbs.AccessLocalWrite, Addr: addr, Len: 16, VA: va})
	check(err)
	vector := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, 20), 22)
	_, err = c.DDR().WriteAt(vector, addr)
	check(err)

	tasks, err := d.StartTasks(ctx, pd.(*driver.PD).Number(), 16)
	check(err)
	_, err = tasks.Submit(task.Descriptor{
		Kernel:   task.KernelSum,
		Operands: []task.Operand{{VA: va, Length: 8, Key: mr.LKey(), Type: task.Uint32, Shape: task.Shape{2}}},
		Result:   task.Operand{VA: va + 8, Length: 8, Key: mr.LKey(), Type: task.Uint64, Shape: task.Shape{1}},
	})
	check(err)
	answer, err := tasks.Wait(ctx)
	check(err)
	sum := make([]byte, 8)
	_, err = c.DDR().ReadAt(sum, addr+8)
	check(errors.Join(err, tasks.Stop(ctx)))
	fmt.Println(answer.Status, binary.LittleEndian.Uint64(sum))
	// Output: success 42
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
