// SPDX-License-Identifier: Apache-2.0

package task_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"

	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/task"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// The sum of a vector in registered memory. Each access uses the key of a region.
func Example() {
	table, err := mr.New(mr.Config{})
	check(err)
	pd := table.AllocPD()
	memory := binary.LittleEndian.AppendUint32(nil, 20)
	memory = binary.LittleEndian.AppendUint32(memory, 22)
	memory = append(memory, make([]byte, 8)...) // the result
	region, err := table.Register(mr.Spec{PD: pd, Host: memory, Access: verbs.AccessLocalWrite})
	check(err)

	executor, err := task.NewExecutor(task.Config{Cores: 2})
	check(err)
	defer executor.Close(context.Background())
	origin, err := executor.NewOrigin(task.Local(table, pd))
	check(err)
	vector := task.Operand{VA: region.VA(), Length: 8, Key: region.LKey(), Type: task.Uint32, Shape: task.Shape{2}}
	result := task.Operand{VA: region.VA() + 8, Length: 8, Key: region.LKey(), Type: task.Uint64, Shape: task.Shape{1}}
	d := task.Descriptor{ID: 1, Kernel: task.KernelSum, Operands: []task.Operand{vector}, Result: result}
	answers := make(chan task.Answer, 1)
	origin.Submit(task.Task{Descriptor: d, Done: func(a task.Answer) { answers <- a }})
	fmt.Println((<-answers).Status, binary.LittleEndian.Uint64(memory[8:]))

	d.ID, d.Operands[0].VA = 2, vector.VA+1000
	origin.Submit(task.Task{Descriptor: d, Done: func(a task.Answer) { answers <- a }})
	fmt.Println((<-answers).Status)
	// Output:
	// success 42
	// access refused
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
